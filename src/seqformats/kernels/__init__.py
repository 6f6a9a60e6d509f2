"""The kernels, one a file: the mathematics, the CPU driver and the CUDA driver side by side.

Moves of rows, in bytes on the CPU and in machine words on CUDA.  Between layouts:

- `copy_blocks`       every sequence is one block in both layouts
- `blocks_to_steps`   from blocks to time steps
- `steps_to_blocks`   from time steps to blocks
- `words_to_steps`, `steps_to_words`    the same for rows of one word; on CUDA they are rows like others
- `pad_blocks`        the padding of a rectangle

Within a layout, whichever it is:

- `reverse_rows`      every sequence from its end to its beginning
- `repeat_rows`       row i of an array to every row of sequence i
- `end_rows`          the first or the last row of every sequence to an array, or back
- `window_rows`       neighbours side by side

Arithmetic, on flat arrays of native dtypes.  One item a sequence, and the gradients:

- `sum_rows`, `spread_rows`                 sum, mean, sum / sqrt(length)
- `max_rows`, `find_rows`, `spread_places`  maximum, minimum and their places
- `prod_rows`, `prod_back`                  product
- `logsumexp_rows`, `spread_exp`            logsumexp
- `topk_rows`, `topk_back`                  means of the largest items

One item an item, and the gradients:

- `softmax_rows`, `softmax_back`        softmax and its logarithm
- `cumsum_rows`                         running sums, both ways
- `window_back`                         the gradient of `window_rows`
- `sum_copies`                          the gradient of repeating sequences
- `scatter_rows`                        updates added at chosen places
- `keep_rows`                           which rows hold none of some tokens

What attention asks for:

- `number_rows`, `block_mask`           positions, segments; which rows see each other

Decoding:

- `select_beams`                        the best candidates of each source, of some for each prefix
- `best_tokens`, `merge_tokens`         the best candidates, of all tokens: of each source, or row by row and merged
- `log_probabilities`, `perturb_scores` what hooks see; noise for sampling

Structure, which lives on the host and has no CUDA twin:

- `check_lengths`, `check_offsets`, `check_order`   is it valid, and what follows from it
- `pick_sequences`                      the structure of chosen sequences
- `sort_lengths`                        the order by falling length
- `cut_buckets`, `fill_bins`            batches of a limited size
- `advance_beams`, `trace_nodes`        what beam search keeps, and the way back through it
- `scan_list`, `scan_tensors`           lengths and addresses of a tuple of NumPy arrays, of torch tensors
- `scan_nested`, `list_rows`            nested Python lists of numbers, read and written
"""
