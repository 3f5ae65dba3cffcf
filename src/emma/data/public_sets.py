"""Public sets that networks are pretrained on, by name: what each covers, as its publication says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.errors import InputError, unknown


@dataclass(frozen=True)
class PublicSet:
    """What a set covers.

    Attributes:
        source: the publication.
        modulations: by the set's own names; empty where a set is of no modulations.
        snr_db: lowest and highest nominal SNR in dB; None where none is stated.
    """

    source: str
    modulations: tuple[str, ...] = ()
    snr_db: tuple[float, float] | None = None


_ANALOG_2016 = ("AM-DSB", "WBFM")
_DIGITAL_2016 = ("8PSK", "BPSK", "CPFSK", "GFSK", "PAM4", "QAM16", "QAM64", "QPSK")

PUBLIC_SETS: Mapping[str, PublicSet] = {
    "radioml_2016_10a": PublicSet(
        "O'Shea and West, Radio Machine Learning Dataset Generation with GNU Radio, GNU Radio Conference 2016",
        (*_DIGITAL_2016, *_ANALOG_2016, "AM-SSB"),
        (-20.0, 18.0),
    ),
    "radioml_2016_10b": PublicSet(
        "O'Shea and West, Radio Machine Learning Dataset Generation with GNU Radio, GNU Radio Conference 2016",
        (*_DIGITAL_2016, *_ANALOG_2016),
        (-20.0, 18.0),
    ),
    "radioml_2018_01a": PublicSet(
        "O'Shea, Roy and Clancy, Over-the-Air Deep Learning Based Radio Signal Classification, arXiv:1712.04578",
        (
            *("OOK", "4ASK", "8ASK", "BPSK", "QPSK", "8PSK", "16PSK", "32PSK"),
            *("16APSK", "32APSK", "64APSK", "128APSK", "16QAM", "32QAM", "64QAM", "128QAM", "256QAM"),
            *("AM-SSB-WC", "AM-SSB-SC", "AM-DSB-WC", "AM-DSB-SC", "FM", "GMSK", "OQPSK"),
        ),
        (-20.0, 30.0),
    ),
    "deepmimo": PublicSet(
        "Alkhateeb, DeepMIMO: A Generic Deep Learning Dataset for Millimeter Wave and Massive MIMO Applications, "
        "arXiv:1902.06435"
    ),
    "oracle": PublicSet(
        "Sankhe et al., ORACLE: Optimized Radio clAssification through Convolutional neuraL nEtworks, INFOCOM 2019"
    ),
    "wisig": PublicSet(
        "Hanna, Karunaratne and Cabric, WiSig: A Large-Scale WiFi Signal Dataset for Receiver and Channel Agnostic RF "
        "Fingerprinting, IEEE Access 2022"
    ),
}


def regimes_of(name: str, regimes_db: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """SNR regimes that a set's range meets, be it at an edge; SNRs are nominal, and so is the comparison.

    Args:
        name: of a public set.
        regimes_db: lowest and highest SNR of each regime, in dB.
    """
    span = PUBLIC_SETS[name].snr_db
    if span is None:
        return ()
    return tuple(regime for regime, (low, high) in regimes_db.items() if low <= span[1] and span[0] <= high)


def refuse_unknown(value: str, known: Sequence[str], field: str) -> None:
    """InputError where a value is none of those known: what it may have meant, or what they are."""
    if value not in known:
        raise InputError(f"{field}: {unknown(value, known, most=12)}")
