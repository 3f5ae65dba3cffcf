"""Which published networks have a recipe, and what their files are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """A published network.

    Attributes:
        name: of the model, and of its config in ``config/models/published``.
        file: path of the published file in its repository.
        repository: on GitHub, ``owner/name``.
        commit: at which the file was read.
        licence: of the weights; "none stated" where their authors say nothing.
        sha256: of the published file.
        description: one line.
        link: the page of the authors, or of their paper.
        network: module of its code, with ``names()`` and ``DROPPED``; None for an ONNX file, taken as it is.
    """

    name: str
    file: str
    repository: str
    commit: str
    licence: str
    sha256: str
    description: str
    link: str
    network: str | None = None

    @property
    def source(self) -> str:
        """Where the file can be fetched by hand."""
        return f"https://github.com/{self.repository}, {self.file} at {self.commit[:8]}"


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="radioml_vgg10",
            file="sandbox/notebooks/models/pretrained_VGG10_w8a8_20.pth",
            repository="Xilinx/brevitas-radioml-challenge-21",
            commit="9eef6a2417d6a0c078bfcc3a4dc95033739c5550",
            licence="Apache-2.0",
            sha256="ae99b02ffa2e0e9b5e4eb6e38a46fd74b0bf06c312b164345c1143dc9f6e541d",
            description="Convolutional classifier of RadioML 2018.01A at 8 bits; its last hidden layer",
            link="https://github.com/Xilinx/brevitas-radioml-challenge-21",
            network="emma.backbones.published.radioml_vgg10",
        ),
        Recipe(
            name="lwm_v1",
            file="model_weights.pth",
            repository="yuknow01/LWM",
            commit="f3c61774bb51a8db20614cb831144eb1c66c3139",
            licence="none stated",
            sha256="838d9f35e9e1bfd46e4c3212d00fa069f5ea02a93c0f807d25399e755b2eebbc",
            description="Transformer that fills in masked parts of simulated channels; its class token",
            link="https://arxiv.org/abs/2411.08872",
            network="emma.backbones.published.lwm_v1",
        ),
        Recipe(
            name="kjs_res_20db",
            file="AMC_SCI_v2/main_AMC_v2_vel_30/Sim01(Complexity_Analysis)/tripleResNet_Network/20dB_AMC_Network.onnx",
            repository="KJS-KR/Automatic-Modulation-Classification-based-on-DL",
            commit="0c14f087b78a7962382afc176cfa8c2e700e3114",
            licence="none stated",
            sha256="acd9e6bbe84cc3017108cca37b6f0a0c2b9461a6cb323defcb49cdf1837bccc8",
            description="Residual classifier of four modulations of a grid of OFDM symbols; its last hidden layer",
            link="https://github.com/KJS-KR/Automatic-Modulation-Classification-based-on-DL",
        ),
    )
}
