"""Train on handwritten digits with Hugging Face Accelerate. The Accelerator is imported from slicewise.

mkdir -p build && slicewise calibrate     # once per machine
slicewise plan examples/digits.py:network --devices 2 --batch 64 -o build/digits.json
torchrun --nproc-per-node 2 examples/train_accelerate.py
"""

import torch
import torch.nn.functional as F
from digits import digits, network
from torch.utils.data import DataLoader

import slicewise
from slicewise.accelerate import Accelerator

BATCH, EPOCHS = 64, 4


def main() -> None:
    accelerator = Accelerator(cpu=True)
    share = BATCH // accelerator.num_processes
    torch.manual_seed(0)
    net = slicewise.parallelize(network()[0], "build/digits.json")
    train, test = digits()
    net, optimizer, loader, tests = accelerator.prepare(
        net,
        torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9),
        DataLoader(train, share, shuffle=True, drop_last=True),
        DataLoader(test, share),
    )
    for epoch in range(EPOCHS):
        net.train()
        for images, labels in loader:
            accelerator.backward(F.cross_entropy(net(images), labels))
            accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.save_state("build/accelerate")  # load_state goes on from it, on any number of ranks
        net.eval()
        found = []
        for images, labels in tests:
            with torch.no_grad():
                right = net(images).argmax(1) == labels
            found.append(accelerator.gather_for_metrics(right))
        accelerator.print(f"epoch {epoch}: {torch.cat(found).float().mean():.1%} right")
    accelerator.end_training()


if __name__ == "__main__":
    main()
