"""One reader per format: folders of images, NumPy, CSV and Parquet files, and the originals of the benchmarks."""
