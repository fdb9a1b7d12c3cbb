# Completion of vblk-load for bash: commands, options and patterns as --help tells them; paths for the rest.
_vblk_load()
{
    local current=${COMP_WORDS[COMP_CWORD]} option='' command='' words=''
    COMPREPLY=()
    case ${COMP_WORDS[1]-} in verify | info) command=${COMP_WORDS[1]} ;; esac
    # bash takes "--option=value" for three words.
    if [[ $current == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 1]} current=''
    elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ $option == --rw ]]; then
        # "--rw=PATTERN  read, write, randread, randwrite or randrw (default randread)"
        words=$(vblk-load --help 2>/dev/null | sed -nE 's/^ *--rw=[A-Z]+ +(.*) \(default.*/\1/p')
        words=${words// or /,}
    elif [[ ! $option && $current == -* ]]; then
        # $command is empty or one word.
        # shellcheck disable=SC2086
        words=$(vblk-load $command --help 2>/dev/null | grep -oE '^  (-[a-z], )?--[a-z][a-z-]*=?' | grep -oE -- '--[a-z-]+=?')
    elif [[ ! $option && $COMP_CWORD == 1 ]]; then
        words='verify info'
    fi
    if [[ $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${words//,/ }" -- "$current")
        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
    fi
    return 0
}
complete -F _vblk_load vblk-load
