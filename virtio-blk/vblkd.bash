# Completion of vblkd for bash: options and the values that they list, as --help tells both; paths for the rest.
_vblkd()
{
    local current=${COMP_WORDS[COMP_CWORD]} option='' words
    COMPREPLY=()
    # bash takes "--option=value" for three words.
    if [[ $current == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 1]} current=''
    elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ $option == --fault ]]; then
        words=$(vblkd --socket-path=/ --blk-file=null:1 --fault=? 2>&1 | sed -n 's/.*known are: //p')
    elif [[ $option ]]; then
        # "--cache=MODE  What it is: writeback (the page cache) or none (default: writeback)"
        words=$(vblkd --help 2>/dev/null | sed -nE "s/^ *$option=[A-Z]+ +(.*) \(default: .*/\1/p" |
            sed -E 's/ \([^)]*\)//g; s/.*: //' | grep -xE '[a-z0-9_-]+(, [a-z0-9_-]+)*( or [a-z0-9_-]+|, [a-z0-9_-]+)')
        words=${words// or / }
    elif [[ $current == -* ]]; then
        words=$(vblkd --help 2>/dev/null | grep -oE '^  (-[a-z], )?--[a-z][a-z-]*=?' | grep -oE -- '--[a-z-]+=?')
    fi
    if [[ ${words-} ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${words//,/ }" -- "$current")
        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
    fi
    return 0
}
complete -F _vblkd vblkd
