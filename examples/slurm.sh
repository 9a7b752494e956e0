#!/bin/bash
# A comparison on a Slurm cluster, in one of two ways.
#
#   sbatch --nodes=4 --gpus-per-node=8 --exclusive examples/slurm.sh      Ray on one allocation: lanes on all GPUs
#   sbatch --array=1-8 --gpus=1 --cpus-per-task=8 examples/slurm.sh       eight jobs, each with its shard of the rows
#   bash examples/slurm.sh join                                           afterwards: their results in one store
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
# The token keeps other users of the cluster out; Ray 2.52 or newer asks for it.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=${RAY_AUTH_TOKEN:-$(tr -d - < /proc/sys/kernel/random/uuid)}
trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT
nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=${nodes[0]} others=$((${#nodes[@]} - 1))

start_ray() { # NODES HOSTS OPTIONS: a step has one core, and Ray counts those of the machine, unless both are told
    srun --nodes="$1" --ntasks="$1" --cpus-per-task="$SLURM_CPUS_ON_NODE" -w "$2" \
        ray start "${@:3}" --num-cpus="$SLURM_CPUS_ON_NODE" --disable-usage-stats --block &
}

start_ray 1 "$head" --head --port="$PORT"
for _ in {1..60}; do
    if ray status --address "$head:$PORT" > /dev/null 2>&1; then break; fi
    sleep 1
done
if [ "$others" -gt 0 ]; then start_ray "$others" "$(IFS=,; echo "${nodes[*]:1}")" --address="$head:$PORT"; fi
# nodes that come later get work too; a job that ran out of time goes on when it is submitted again
RAY_ADDRESS=$head:$PORT compare_in_time --store "$RUNS/base.sqlite" --on auto
