# Completion of vblkscope for bash: commands, options (as --help lists them), folders; for ctl what the device lists.
# SOCKET COMMAND NAME=VALUE...: names come from whoever answers at the socket.
_vblkscope_ctl()
{
    local current=${COMP_WORDS[COMP_CWORD]} words=() word listed
    for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
        [[ $word == -* ]] || words+=("$word")
    done
    case ${#words[@]} in
    0)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
        return ;;
    1) listed=$(vblkscope ctl --timeout=2 "${words[0]}" commands 2>/dev/null | sed -n 's/^\([a-z-]*\) .*/\1/p') ;;
    *)
        # The lines below the command's own, up to the next command.
        listed=$(vblkscope ctl --timeout=2 "${words[0]}" commands 2>/dev/null |
            sed -n "/^${words[1]} /,/^[a-z]/s/^    \([a-z_-]*=\).*/\1/p")
        compopt -o nospace 2>/dev/null ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$listed" -- "$current")
    return 0
}

_vblkscope()
{
    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        words="$(vblkscope --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p') --help --version"
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    elif [[ ${COMP_WORDS[COMP_CWORD-1]} == = && ${COMP_WORDS[COMP_CWORD-2]} =~ ^--(suppress|output)$ ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
    elif [[ $current == -* ]]; then
        words=$(vblkscope "$command" --help 2>/dev/null | grep -o -- '--[a-z][a-z-]*=\?')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
    elif [[ $command == explain ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(vblkscope explain 2>/dev/null | sed -n 's/^\([a-z-]*\)  *\(info\|warning\|error\) .*/\1/p')" -- "$current")
    elif [[ $command == ctl ]]; then
        _vblkscope_ctl
    else
        local what=-d
        [[ $command == compare ]] && what=-f # reports too
        mapfile -t COMPREPLY < <(compgen $what -- "$current")
        compopt -o filenames
    fi
}
complete -F _vblkscope vblkscope
