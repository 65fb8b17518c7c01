"""A task of your own on a folder of images, in one file: a folder for each class, or a table beside the images.

    vgp run training --set data=shapes --set task=docs.examples.shapes:Shapes \
      --set epochs=20 --set global_batch_size=32 --set learning_rate=5e-3
"""

from torch import Tensor, nn
from torch.nn import functional as F

from vgp.data.images import ImageTask
from vgp.data.task import Batch
from vgp.protocol.manifest import Manifest


class Shapes(ImageTask):
    """Which shape is it? Options: those of every image task, and `width`, the width of the network."""

    classes = ("circle", "square")
    settings = {**ImageTask.settings, "size": 32, "channels": 1, "width": 8}

    def model(self, data: Manifest) -> nn.Module:
        channels, width = data.statistics["channels"], self.chosen["width"]
        return nn.Sequential(
            nn.Conv2d(channels, width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(2 * width * 16, len(self.classes)),
        )

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(self._logits(model, batch), batch["label"])

    def predict(self, model: nn.Module, batch: Batch) -> Tensor:
        return self._logits(model, batch).float().softmax(dim=-1)

    def _logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """(B, size * size * channels) bytes -> (B, C) logits."""
        size, channels = self.chosen["size"], self.chosen["channels"]
        pixels_BHWC = batch["image"].view(-1, size, size, channels)
        return model(pixels_BHWC.permute(0, 3, 1, 2).float() / 127.5 - 1)
