"""Columns as Arrow can pick rows out of them and put batches of them together."""

import pyarrow as pa

__all__ = ["as_takeable", "takeable"]


def takeable(schema: pa.Schema) -> pa.Schema:
    """Replace views, as Polars writes them, and numbers too short for dictionaries that grow."""
    return pa.schema([_field(field) for field in schema], schema.metadata)


def as_takeable(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types that :func:`takeable` gives it."""
    if batch.schema == schema:
        return batch
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if pa.types.is_dictionary(field.type):  # Arrow would decode it to cast it
            column = pa.DictionaryArray.from_arrays(
                column.indices.cast(field.type.index_type),
                column.dictionary.cast(field.type.value_type),
                ordered=field.type.ordered,
            )
        columns.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_type(field.type))


def _type(type_: pa.DataType) -> pa.DataType:
    if type_ == pa.string_view():
        return pa.large_string()
    if type_ == pa.binary_view():
        return pa.large_binary()
    if pa.types.is_dictionary(type_):
        index = type_.index_type if type_.index_type.bit_width >= 32 else pa.int32()
        return pa.dictionary(index, _type(type_.value_type), type_.ordered)
    if pa.types.is_large_list(type_):
        return pa.large_list(_field(type_.value_field))
    if pa.types.is_list(type_):
        return pa.list_(_field(type_.value_field))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(_field(type_.value_field), type_.list_size)
    if pa.types.is_struct(type_):
        return pa.struct([_field(field) for field in type_])
    return type_
