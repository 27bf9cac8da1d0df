#!/bin/sh
name=$1 range=${2%%%*} out=$3 script=$4
for i in $(seq "${range%-*}" "${range#*-}"); do
    if [ -e "$FAKE/lose-$i" ]; then
        echo "$name|$i|NODE_FAIL|0|n1|None|" >>"$FAKE/rows"
        continue
    fi
    SLURM_ARRAY_TASK_ID=$i SLURM_CPUS_ON_NODE=1 sh "$script" >>"$(echo "$out" | sed "s/%a/$i/")" 2>&1
    status=$?
    state=COMPLETED
    [ $status = 0 ] || state=FAILED
    echo "$name|$i|$state|$((status * 256))|n1|None|" >>"$FAKE/rows"
done
