"""Faults of loading and preparing batches."""

from benchmarks.tune.fault import Fault

_STARVED = ("data.starved",)
_LOADER = "num_workers=1, persistent_workers=True"

FAULTS = (
    Fault(
        "no_workers",
        "image_cnn",
        (
            (_LOADER, "num_workers=0"),
            (
                "return image, self.labels[index]",
                "for shift in range(40):\n            image = (image + image.roll(shift, -1)) / 2\n        return image, self.labels[index]",
            ),
        ),
        _STARVED,
        turn=8,
    ),
    Fault(
        "images_read_from_disk",
        "image_cnn",
        (
            ("import argparse\n", "import argparse\nimport tempfile\nfrom pathlib import Path\n"),
            (_LOADER, "num_workers=0"),
            (
                "        self.labels = torch",
                "        self.folder = Path(tempfile.mkdtemp())\n"
                "        for index, image in enumerate(self.images):\n"
                '            torch.save(image.clone(), self.folder / f"{index}.pt")\n'
                "        self.labels = torch",
            ),
            (
                "image = self.images[index].float() / 255",
                'image = torch.load(self.folder / f"{index}.pt").float() / 255',
            ),
        ),
        _STARVED,
        turn=8,
    ),
    Fault(
        "workers_start_each_epoch",
        "image_cnn",
        (
            (_LOADER, "num_workers=1"),
            ("images = Images(args.batch * 25, args.size)", "images = Images(args.batch * 5, args.size)"),
        ),
        ("loop.worker_starts", *_STARVED),
        turn=10,
    ),
    Fault(
        "random_generation_for_each_sample",
        "image_cnn",
        (
            (_LOADER, "num_workers=0"),
            (
                "return image, self.labels[index]",
                "noise = torch.randn(64, *image.shape, generator=torch.Generator().manual_seed(index))\n        return image + noise.mean(0), self.labels[index]",
            ),
        ),
        _STARVED,
        turn=8,
    ),
    Fault(
        "table_read_each_step",
        "tabular_mlp",
        (
            ("import argparse\n", "import argparse\nimport tempfile\nfrom pathlib import Path\n"),
            (
                "    model = build_model",
                '    path = Path(tempfile.mkdtemp()) / "table.npz"\n    np.savez_compressed(path, table=table.astype(np.float32))\n    model = build_model',
            ),
            (
                "        picked = torch",
                '        rows = torch.from_numpy(np.load(path)["table"])\n        picked = torch',
            ),
        ),
        ("loop.file_reads",),
    ),
    Fault(
        "words_encoded_each_step",
        "text_classifier",
        (
            (
                "    return [words[word] for word in text.split()]",
                "    vocabulary = list(words)\n    return [1 + vocabulary.index(word) for word in text.split()]",
            ),
            ("encoded = [encode(text, words) for text in texts]", "encoded = texts"),
            (
                "batch = encoded[first : first + args.batch]",
                "batch = [encode(text, words) for text in encoded[first : first + args.batch]]",
            ),
        ),
        ("loop.python",),
    ),
    Fault(
        "padded_to_longest",
        "text_classifier",
        (("longest = max(map(len, batch))", "longest = 256"),),
        ("data.padding",),
    ),
    Fault(
        "pairs_padded_to_longest",
        "sequence_pairs",
        (
            (
                "        pad_sequence(sentences[first : first + args.batch], batch_first=True, padding_value=PAD)\n",
                "        F.pad(pad_sequence(sentences[first : first + args.batch], True, PAD), (0, 64))[:, :64]\n",
            ),
        ),
        ("data.padding",),
    ),
    Fault(
        "rows_stacked_in_python",
        "autoencoder",
        (
            (
                "x = images[torch.randint(0, len(images), (args.batch,))]",
                "x = torch.tensor([images[i].tolist() for i in torch.randint(0, len(images), (args.batch,))])",
            ),
        ),
        ("loop.tensor_reads", "loop.python", "calls.repeated"),
        ("--batch", "128"),
    ),
)
