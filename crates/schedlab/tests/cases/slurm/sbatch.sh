#!/bin/sh
echo "$@" >>"$FAKE/args"
echo "wait=$SBATCH_WAIT" >>"$FAKE/env"
for arg in "$@"; do
    case $arg in
        --array=*) range=${arg#--array=} ;;
        --output=*) out=${arg#--output=} ;;
        --job-name=*) name=${arg#--job-name=} ;;
        --partition=nope)
            echo "sbatch: error: invalid partition specified: nope" >&2
            echo "sbatch: error: Batch job submission failed: Invalid partition name specified" >&2
            exit 1 ;;
    esac
    script=$arg
done
if [ -e "$FAKE/hold" ]; then
    echo "runs '$name' '$range' '$out' '$script'" >"$FAKE/begin"
    for i in $(seq "${range%-*}" "${range#*-}"); do echo "$name|$i|PENDING|0||Priority|"; done >"$FAKE/queued"
else
    runs "$name" "$range" "$out" "$script"
fi
if [ -e "$FAKE/late" ]; then
    echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
    exit 1
fi
echo "Submitted batch job 1"
