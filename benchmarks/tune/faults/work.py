"""Faults of ops that do more than they must."""

from benchmarks.tune.fault import Fault

FAULTS = (
    Fault(
        "attention_by_hand",
        "char_transformer",
        (
            (
                "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
                'mask = torch.full((length, length), float("-inf")).triu(1)\n'
                "        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5 + mask\n"
                "        y = F.softmax(scores, dim=-1) @ v",
            ),
        ),
        ("attention.unfused",),
        ("--length", "256", "--batch", "4"),
    ),
    Fault(
        "one_hot_embedding",
        "lstm_language",
        (
            (
                "x = self.tokens(tokens)",
                "x = F.one_hot(tokens, self.tokens.num_embeddings).float() @ self.tokens.weight",
            ),
        ),
        ("gemm.one_hot",),
    ),
    Fault(
        "one_hot_users",
        "ranking",
        (
            (
                "user = self.users(users).unsqueeze(1)",
                "user = (F.one_hot(users, self.users.num_embeddings).float() @ self.users.weight).unsqueeze(1)",
            ),
        ),
        ("gemm.one_hot",),
    ),
    Fault(
        "dense_adjacency",
        "graph_network",
        (
            (
                "gathered = torch.zeros_like(messages).index_add(0, target, messages[source])",
                "adjacency = torch.zeros(len(x), len(x)).index_put((target, source), torch.ones(()), accumulate=True)\n"
                "        gathered = adjacency @ messages",
            ),
        ),
        ("gemm.scattered",),
    ),
    Fault(
        "inverse_for_solve",
        "gaussian_process",
        (
            (
                "factor = torch.linalg.cholesky(covariance)\n        solved = torch.cholesky_solve(y, factor)",
                "solved = torch.linalg.inv(covariance) @ y",
            ),
            ("2 * factor.diagonal().log().sum()", "torch.logdet(covariance)"),
        ),
        ("linalg.inverse",),
    ),
    Fault(
        "norm_by_hand",
        "averaged_weights",
        (
            (
                "self.norm = nn.LayerNorm(width)",
                "self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))",
            ),
            (
                "return x + self.two(F.silu(self.one(self.norm(x))))",
                "centered = x - x.mean(-1, keepdim=True)\n"
                "        scaled = centered * torch.rsqrt(centered.pow(2).mean(-1, keepdim=True) + 1e-5)\n"
                "        return x + self.two(F.silu(self.one(scaled * self.scale + self.shift)))",
            ),
        ),
        ("fusion.norm",),
        ("--batch", "512", "--width", "192"),
    ),
    Fault(
        "softmax_by_hand",
        "lstm_language",
        (
            (
                "loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())",
                "powers = (logits - logits.amax(-1, keepdim=True)).exp()\n"
                "        shares = powers / powers.sum(-1, keepdim=True)\n"
                "        loss = -shares.gather(-1, window[:, 1:].unsqueeze(-1)).log().mean()",
            ),
        ),
        ("fusion.softmax",),
    ),
    Fault(
        "gelu_by_hand",
        "distillation",
        (
            (
                "def build_network(",
                "class Gelu(nn.Module):\n    def forward(self, x):\n        return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))\n\n\ndef build_network(",
            ),
            ("nn.Linear(128, width), nn.GELU()]", "nn.Linear(128, width), Gelu()]"),
            ("nn.Linear(width, width), nn.GELU()]", "nn.Linear(width, width), Gelu()]"),
        ),
        ("fusion.elementwise",),
        ("--batch", "512", "--width", "128"),
    ),
    Fault(
        "noise_of_all_samples",
        "contrastive",
        (
            (
                "noise = 0.1 * torch.randn(2, args.batch, 256)",
                "noise = 0.1 * torch.randn(2, len(samples), 256)[:, : args.batch]",
            ),
        ),
        ("random.generation",),
    ),
    Fault(
        "masks_made_each_step",
        "text_classifier",
        (
            (
                "return self.head(self.encoder(self.tokens(tokens)).mean(1))",
                "x = self.tokens(tokens)\n"
                "        noise = torch.rand(len(x), x.shape[1], 1000)\n"
                "        x = F.dropout(x, 0.0) + 0.0 * noise.mean(-1, keepdim=True)\n"
                "        return self.head(self.encoder(x).mean(1))",
            ),
        ),
        ("random.generation",),
    ),
)
