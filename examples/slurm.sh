#!/bin/bash
# A comparison on a Slurm cluster, in one of two ways.
#
#   sbatch --nodes=4 --gpus-per-node=8 examples/slurm.sh          Ray on one allocation: lanes spread over all GPUs
#   sbatch --array=1-8 --gpus=1 examples/slurm.sh                 eight jobs, each with its shard of the rows
#   bash examples/slurm.sh join                                   afterwards: their results in one store
#
# DATA and OPTIONS say what is compared; RUNS is a folder that all nodes see.
#SBATCH --job-name=class-uncertainty
#SBATCH --time=04:00:00
set -euo pipefail

DATA=${DATA:-cifar100-lt:50}
OPTIONS=${OPTIONS:---recipe bag-of-tricks --methods naive,cb-rs,balanced-softmax,ubrs --seeds 5}
RUNS=${RUNS:-$PWD/runs}
PORT=${PORT:-6379}
mkdir -p "$RUNS"

# Training stops MARGIN seconds before the allocation ends, at the end of an epoch: checkpoints are written, and the same
# job submitted again goes on. A signal would not do: that of 'sbatch --signal=INT@60' goes to job steps, which are Ray's
# own here, and never to 'cu' in the batch shell.
MARGIN=${MARGIN:-300}

compare() { # shellcheck disable=SC2086
    cu compare "$DATA" $OPTIONS "$@"
}

compare_in_time() {
    local end left
    end=${SLURM_JOB_END_TIME:-$(date -d "$(squeue -h -j "$SLURM_JOB_ID" -o %e)" +%s)} # older Slurm sets no variable
    left=$((end - $(date +%s) - MARGIN))
    if [ "$left" -le 0 ]; then
        echo "the allocation ends within $MARGIN seconds: ask for more --time." >&2
        exit 2
    fi
    compare --budget "${left}s" "$@"
}

if [ "${1:-}" = join ]; then
    for store in "$RUNS"/shard-*.sqlite; do
        cu results export "${store%.sqlite}.jsonl" --store "$store"
    done
    cu results import "$RUNS"/shard-*.jsonl --store "$RUNS/base.sqlite"
    compare --store "$RUNS/base.sqlite" # finds every row, and shows the table
    exit
fi

if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    # Rows that use uncertainty need the same estimate: measured once in base.sqlite by 'cu measure DATA', it is copied.
    # Without that every shard measures on its own, with the same result.
    store=$RUNS/shard-$SLURM_ARRAY_TASK_ID.sqlite
    if [ -e "$RUNS/base.sqlite" ] && [ ! -e "$store" ]; then
        cp -r "$RUNS/base.sqlite" "$store"
        if [ -d "$RUNS/base.sqlite.estimates" ]; then cp -r "$RUNS/base.sqlite.estimates" "$store.estimates"; fi
    fi
    compare_in_time --store "$store" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
    exit
fi

# Ray: a head on the first node, a worker on each other; all end with the job.
nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=${nodes[0]}
srun --nodes=1 --ntasks=1 -w "$head" ray start --head --port="$PORT" --disable-usage-stats --block &
sleep 20
if [ "${#nodes[@]}" -gt 1 ]; then
    others=$(IFS=,; echo "${nodes[*]:1}")
    srun --nodes=$((${#nodes[@]} - 1)) --ntasks-per-node=1 -w "$others" \
        ray start --address="$head:$PORT" --disable-usage-stats --block &
fi
sleep 20
# nodes that come later get work too; a job that ran out of time goes on when it is submitted again
RAY_ADDRESS=$head:$PORT compare_in_time --store "$RUNS/base.sqlite" --on auto
