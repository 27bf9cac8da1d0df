"""HDR histograms of records, in their V2 form."""

import base64
import math
import struct


class Histogram:
    """The samples of a series: `unit`, exact `count`, `min`, `max`, `sum`, and buckets of three significant digits."""

    def __init__(self, series):
        self.unit = series["unit"]
        self.count, self.sum = series["count"], series["sum"]
        self.min, self.max = series["min"], series["max"]
        self._lowest, self._counts = _buckets(series["hist"]) if self.count else ([], [])

    def frame(self):
        """Each bucket that holds samples: `lowest` value in it, and `count`."""
        import pandas

        return pandas.DataFrame({"lowest": self._lowest, "count": self._counts})

    def mean(self):
        return self.sum / self.count if self.count else math.nan

    def quantile(self, share):
        """The value below which this share of the samples lies (the lowest of its bucket): 0.99 for p99."""
        if not 0 <= share <= 1:
            raise ValueError(f"a share is from 0 to 1, not {share}")
        if not self.count:
            return math.nan
        wanted, seen = max(1, math.ceil(share * self.count)), 0
        for lowest, count in zip(self._lowest, self._counts):
            seen += count
            if seen >= wanted:
                return min(max(lowest, self.min), self.max)
        return self.max


def _buckets(text):
    """Lowest values and counts of the buckets that hold something."""
    data = base64.b64decode(text)
    _cookie, length, _offset, digits, lowest, _highest, _ratio = struct.unpack(">iiiiqqd", data[:40])
    half = (2 * 10**digits - 1).bit_length() - 1  # of a bucket's slots, as a power of two
    unit = lowest.bit_length() - 1
    values, counts, index = [], [], 0
    for count in _zigzag(data[40 : 40 + length]):
        if count < 0:  # that many empty slots
            index -= count
            continue
        bucket, slot = (index >> half) - 1, (index & ((1 << half) - 1)) + (1 << half)
        if bucket < 0:
            bucket, slot = 0, slot - (1 << half)
        if count:
            values.append(slot << (bucket + unit))
            counts.append(count)
        index += 1
    return values, counts


def _zigzag(data):
    """Numbers of seven bits a byte, the lowest first; a ninth byte has eight."""
    at = 0
    while at < len(data):
        raw, shift = 0, 0
        while True:
            byte, at = data[at], at + 1
            raw |= (byte & (0xFF if shift == 56 else 0x7F)) << shift
            shift += 7
            if byte < 128 or shift > 56:
                break
        yield (raw >> 1) ^ -(raw & 1)
