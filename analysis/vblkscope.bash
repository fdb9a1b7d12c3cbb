# Completion of vblkscope for bash: commands, options (as --help lists them), folders.
_vblkscope()
{
    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        words="$(vblkscope --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p') --help --version"
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    elif [[ $current == -* ]]; then
        words=$(vblkscope "$command" --help 2>/dev/null | grep -o -- '--[a-z][a-z-]*=\?')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
    else
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        compopt -o filenames
    fi
}
complete -F _vblkscope vblkscope
