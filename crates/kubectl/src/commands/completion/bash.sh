# Completion of kubectl for bash. Load it with: source <(kubectl completion bash)

__kubectl_complete() {
    local word="${COMP_WORDS[COMP_CWORD]}" lines last
    COMPREPLY=()
    lines="$("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$word" 2>/dev/null)" || return 0
    last="${lines##*$'\n'}"
    lines="${lines%:*}"
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$lines" -- "$word"))
    if [ "$last" = ":0" ] && [ ${#COMPREPLY[@]} -eq 0 ]; then
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}

complete -F __kubectl_complete kubectl
