"""The kernels, one a file: the mathematics, the CPU driver and the CUDA driver side by side.

Moves of rows between layouts, in bytes on the CPU and in machine words on CUDA:

- `copy_blocks`       every sequence is one block in both layouts
- `blocks_to_steps`   from blocks to time steps
- `steps_to_blocks`   from time steps to blocks
- `pad_blocks`        the padding of a rectangle

Arithmetic, on flat arrays of native dtypes:

- `sum_rows`          the sum of every sequence
- `spread_rows`       its gradient, and that of the mean

Structure, which lives on the host and has no CUDA twin:

- `check_lengths`, `check_offsets`, `check_order`   is it valid, and what follows from it
- `sort_lengths`      the order by falling length
- `scan_list`         lengths and addresses of a tuple of NumPy arrays
"""
