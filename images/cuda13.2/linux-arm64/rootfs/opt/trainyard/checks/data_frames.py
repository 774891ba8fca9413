"""pandas, polars, Arrow, Parquet, Feather and R's .rds and .RData become tensors with the right values."""

from __future__ import annotations

import tempfile
from pathlib import Path

from _lib import fail, need_torch, need_wheels, same

ROWS = 1000


def run(claims: dict) -> dict:
    need_wheels(claims, "numpy", "pandas", "polars", "pyarrow", "pyreadr")
    torch = need_torch(claims)
    wanted = torch.stack([torch.arange(ROWS) * 0.5, torch.arange(ROWS).double() ** 2], dim=1).double()
    columns = {"half": wanted[:, 0].tolist(), "square": wanted[:, 1].tolist()}
    with tempfile.TemporaryDirectory() as folder:
        steps = {
            **pandas_steps(columns),
            **arrow_steps(columns, Path(folder)),
            **r_steps(columns, Path(folder)),
        }
        for name, step in steps.items():
            check(torch, name, step, wanted)
    return {"rows": ROWS, "read": sorted(steps)}


def check(torch, name: str, step, wanted) -> None:
    """One way from a table to a tensor."""
    found = step(torch)
    same(f"{name}: the dtype", str(found.dtype), "torch.float64")
    same(f"{name}: the shape", tuple(found.shape), tuple(wanted.shape))
    if not torch.equal(found, wanted):
        fail(f"{name}: {int((found != wanted).sum())} of {wanted.numel()} values are wrong")


def pandas_steps(columns: dict) -> dict:
    """In memory; pandas 3 gives read-only arrays unless they are copied."""
    import pandas
    import polars

    frame, series = pandas.DataFrame(columns), polars.DataFrame(columns)
    return {
        "pandas": lambda torch: torch.from_numpy(frame.to_numpy(copy=True)),
        "polars": lambda _: series.to_torch(),
        "polars from pandas": lambda _: polars.from_pandas(frame).to_torch(),
        "pandas from polars": lambda torch: torch.from_numpy(series.to_pandas().to_numpy(copy=True)),
    }


def arrow_steps(columns: dict, folder: Path) -> dict:
    """Through files that one library writes and another reads."""
    import pandas
    import polars
    import pyarrow
    from pyarrow import feather, parquet

    table = pyarrow.table(columns)
    parquet.write_table(table, folder / "arrow.parquet", compression="zstd")
    polars.DataFrame(columns).write_parquet(folder / "polars.parquet")
    feather.write_feather(table, folder / "arrow.feather", compression="lz4")

    def stacked(torch, found):
        # Each chunk is shared with Arrow and not copied.
        parts = [torch.cat([torch.from_dlpack(chunk) for chunk in found[name].chunks]) for name in columns]
        return torch.stack(parts, dim=1)

    return {
        "Arrow": lambda torch: stacked(torch, table),
        "Parquet by Arrow": lambda torch: stacked(torch, parquet.read_table(folder / "polars.parquet")),
        "Parquet by pandas": lambda torch: torch.from_numpy(
            pandas.read_parquet(folder / "arrow.parquet").to_numpy(copy=True)
        ),
        "Parquet by polars": lambda _: polars.read_parquet(folder / "arrow.parquet").to_torch(),
        "Feather by Arrow": lambda torch: stacked(torch, feather.read_table(folder / "arrow.feather")),
        "Feather by polars": lambda _: polars.read_ipc(folder / "arrow.feather").to_torch(),
    }


def r_steps(columns: dict, folder: Path) -> dict:
    """R's own formats, without R."""
    import pandas
    import pyreadr

    frame = pandas.DataFrame(columns)
    pyreadr.write_rds(str(folder / "table.rds"), frame, compress="gzip")
    pyreadr.write_rdata(str(folder / "table.RData"), frame, df_name="table")

    def read(torch, name: str, key: str | None):
        return torch.from_numpy(pyreadr.read_r(str(folder / name))[key].to_numpy(copy=True))

    return {
        "R .rds": lambda torch: read(torch, "table.rds", None),
        "R .RData": lambda torch: read(torch, "table.RData", "table"),
    }
