
# Completion of kubectl for fish. Load it with: kubectl completion fish | source

function __kubectl_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] "$last" 2>/dev/null)
        string match -q ':*' -- $line; or echo $line
    end
end

complete -c kubectl -e
complete -c kubectl -f -a '(__kubectl_complete)'
