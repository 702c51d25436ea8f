"""Tables on their way between tasks: bytes, as Spark carries them best."""

import pyarrow as pa


def packed(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpacked(data: pa.Buffer) -> pa.Table:
    """The table again."""
    return pa.ipc.open_stream(data).read_all()
