#compdef kubectl
compdef _kubectl kubectl
# Completion of kubectl for zsh. Load it with: source <(kubectl completion zsh)

_kubectl() {
    local -a found
    local line last
    for line in ${(f)"$(${words[1]} __complete ${words[2,CURRENT-1]} "${words[CURRENT]}" 2>/dev/null)"}; do
        last="$line"
        [[ "$line" == :* ]] || found+=("$line")
    done
    if (( ${#found} )); then
        compadd -a found
    elif [[ "$last" == ":0" ]]; then
        _files
    fi
}

if [ "$funcstack[1]" = "_kubectl" ]; then
    _kubectl
fi
