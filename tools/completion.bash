# Completion for Penstock's programs in bash: options as --help names them, else files and commands.
_penstock() {
  local word=${COMP_WORDS[COMP_CWORD]}
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("$1" --help 2>/dev/null | grep -oE -- '(^|[ ,])--?[a-z][a-z-]*' |
      tr -d ' ,' | sort -u)" -- "$word")
  elif [[ ${1##*/} == penrun || ${1##*/} == penverbs ]]; then
    mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -F _penstock penrun penverbs peninfo penperf pencredit pentop pentrace creditsim
