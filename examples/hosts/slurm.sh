#!/bin/bash
# A training on several hosts under Slurm: one torchrun per node, which starts that node's ranks.
#
#   sbatch --nodes 4 --gpus-per-node 8 examples/hosts/slurm.sh train.py
#   sbatch --nodes 4 --gpus-per-node 8 examples/hosts/slurm.sh -m slicewise calibrate -o hosts.toml
#
# RANKS_PER_NODE (default 8) is the plan's inner tier, the number of nodes its outer one. Set IFNAME to the interface that
# joins the nodes (`ip -brief address` lists them) where gloo or NCCL pick another one.
#SBATCH --job-name=slicewise
#SBATCH --ntasks-per-node=1
#SBATCH --distribution=block
#SBATCH --requeue
set -euo pipefail

head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
if [ -n "${IFNAME:-}" ]; then
    export GLOO_SOCKET_IFNAME="$IFNAME" NCCL_SOCKET_IFNAME="$IFNAME"
fi
export HEAD_NODE="$head_node" PORT="${PORT:-29500}" RANKS_PER_NODE="${RANKS_PER_NODE:-8}"

# Every node has its own SLURM_NODEID: ranks are numbered node by node, in Slurm's order.
srun bash -c 'torchrun --nnodes "$SLURM_NNODES" --node-rank "$SLURM_NODEID" --nproc-per-node "$RANKS_PER_NODE" \
    --master-addr "$HEAD_NODE" --master-port "$PORT" "$@"' torchrun "$@"
