"""Programs that call an operator of several operands, one of which mostly does not fit: one size, one dimension, one
dtype or one argument is another than the operator takes. About half of the calls raise an error in eager.

Each row of the table is a call written for shapes that agree. The letters are sizes, which vary between the calls of
some programs; the change may come in every call or in one of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..program import Program
from ..values import Dice

SAMPLE = 25
# Statements | operands: name=kind:sizes. Kinds: f floats between 0 and 1, i<N indices below N, b bools, p integers.
# {a|b} is an argument: the first alternative is right, the others are mostly not.
TABLE = (
    # writes by index
    "y = y * 1; y[i] = v; r = y | y=f:N i=i<N:M v=f:M",
    "y = y * 1; y[i] = v; r = y | y=f:N,K i=i<N:M v=f:M,K",
    "y = y * 1; y[i, j] = v; r = y | y=f:N,K i=i<N:M j=i<K:M v=f:M",
    "y = y * 1; y[:, i] = v; r = y | y=f:N,K i=i<K:M v=f:N,M",
    "y = y * 1; y[1:][i] = v; r = y | y=f:N i=i<N-1:M v=f:M",
    "y = y * 1; y[i] += v; r = y | y=f:N i=i<N:M v=f:M",
    "y = y * 1; y[b] = v; r = y | y=f:N b=b:N v=f:1",
    "y = y * 1; y[i] = {2.0|300|1j}; r = y | y=f:N i=i<N:M",
    "r = y.index_put((i,), v) | y=f:N i=i<N:M v=f:M",
    "r = y.index_put((i, j), v, accumulate=True) | y=f:N,K i=i<N:M j=i<K:M v=f:M",
    "r = y.index_put((i,), v, accumulate=True) | y=f:N,K i=i<N:M v=f:M,K",
    "r = y.put(i, v{|, accumulate=True}) | y=f:N i=i<N:M v=f:M",
    "r = y.index_reduce({0|-1|1|5}, i, v, '{amax|prod|mean|sum}') | y=f:N i=i<N:M v=f:M",
    "r = y.index_reduce(0, i, v, 'amin') | y=f:N,K i=i<N:M v=f:M,K",
    "r = y.index_add({0|1|2}, i, v) | y=f:N,K i=i<N:M v=f:M,K",
    "r = y.index_add(-1, i, v, alpha={2|0.5|True}) | y=f:K,N i=i<N:M v=f:K,M",
    "r = y.index_copy({0|1|2}, i, v) | y=f:N,K i=i<N:M v=f:M,K",
    "r = y.index_copy(0, i, v) | y=f:N i=i<N:M v=f:M",
    "r = y.index_fill({0|1|-3}, i, {2.0|True}) | y=f:N,K i=i<N:M",
    "r = y.index_fill(0, i, v) | y=f:N i=i<N:M v=f:",
    "r = y.scatter(0, i, v) | y=f:N,K i=i<N:M,K v=f:M,K",
    "r = y.scatter(1, i, {1.5|True}) | y=f:K,N i=i<N:K,M",
    "r = y.scatter_add({0|1|4}, i, v) | y=f:N,K i=i<N:M,K v=f:M,K",
    "r = y.scatter_reduce(0, i, v, '{sum|amax|prod|none}', include_self={True|False}) | y=f:N i=i<N:M v=f:M",
    "r = y.masked_scatter(b, v) | y=f:N b=b:N v=f:N",
    "r = y.masked_fill(b, {2.0|True}) | y=f:N,K b=b:N,K",
    "r = y.masked_fill(b, v) | y=f:N,K b=b:K v=f:",
    "y = y * 1; y.masked_fill_(b, 1.0); r = y | y=f:N,K b=b:N,K",
    "y = y * 1; y.copy_(v); r = y | y=f:N,K v=f:K",
    "y = y * 1; y[1:] = v; r = y | y=f:N,K v=f:N-1,K",
    "y = y * 1; y[:, 0] = v; r = y | y=f:N,K v=f:N",
    "y = y * 1; y[1] = v; r = y | y=f:N,K v=f:K",
    "y = y * 1; y += v; r = y | y=f:N,K v=f:K",
    "y = y * 1; y.mul_(v).sub_(1); r = y | y=f:N,K v=f:N,K",
    "y = y * 1; y.addcmul_(v, w, value={0.5|2}); r = y | y=f:N,K v=f:N,K w=f:K",
    "y = y * 1; y.lerp_(v, {0.5|2}); r = y | y=f:N,K v=f:N,K",
    "y = y * 1; y.fill_(v); r = y | y=f:N v=f:",
    "y = y * 1; y.diagonal().copy_(v); r = y | y=f:N,N v=f:N",
    "y = y * 1; y.index_add_(0, i, v); r = y | y=f:N,K i=i<N:M v=f:M,K",
    "y = y * 1; y.index_copy_(0, i, v); r = y | y=f:N,K i=i<N:M v=f:M,K",
    "y = y * 1; y.scatter_(0, i, v); r = y | y=f:N,K i=i<N:M,K v=f:M,K",
    "y = y * 1; y.scatter_add_(0, i, v); r = y | y=f:N,K i=i<N:M,K v=f:M,K",
    "n = v.shape[0]; y[n:] = y[:-n]; r = y | y=f:N v=f:2",
    "n = v.shape[0]; y[n:].{mul_|copy_|add_|sub_|maximum}(y[:-n]); r = y | y=f:N,K v=f:2",
    "y.add_(y.{t|flip|clone|mT}({|0})); r = y | y=f:N,N",
    "y.view(-1)[:v.shape[0]] += y[0]; r = y | y=f:N,2 v=f:2",
    "y.scatter_(0, i, {y|v}); r = y | y=f:N i=i<N:N v=f:N",
    "y.index_add_(0, i, {y|v}[:i.shape[0]]); r = y | y=f:N i=i<N:M v=f:M",
    "y.index_copy_(0, i, y[:i.shape[0]]{ * 2|}); r = y | y=f:N i=i<N:N",
    "w = y * 2; y[i] = w; r = y | y=f:N i=i<N:N",
    "y.put_(i, v, accumulate=True); r = y | y=f:N i=i<N:M v=f:M",
    "y[1:].index_add_(0, i, v); w.add_(1); r = y | y=f:N i=i<N-1:M v=f:M w=f:2",
    "w.add_(1); y.masked_scatter_(b, v); r = y | y=f:N b=b:N v=f:N w=f:2",
    "torch._foreach_add_([x, y], {1.0|[1.0, 2.0]|[1.0]}); r = x | x=f:N y=f:N,K",
    "torch._foreach_{mul|add|copy|maximum|div}_([x, y, x], [v, w, v]); r = x | x=f:N y=f:N,K v=f:N w=f:K",
    "torch._foreach_{neg|sqrt|exp|zero|abs}_([x, y]); r = x | x=f:N y=f:N",
    "r = y.select_scatter(v, {0|1|2}, {0|-1|9}) * 1 | y=f:N,K v=f:K",
    "r = y.diagonal_scatter(v) * 1 | y=f:N,N v=f:N",
    "r = y.diagonal_scatter(v, {1|0|-1|9}) * 1 | y=f:N,N v=f:N-1",
    "r = y.slice_scatter(v, {0|1|2}, 0, 2) * 1 | y=f:N,K v=f:2,K",
    "r = y.slice_scatter(v, 0, 1) * 1 | y=f:N v=f:N-1",
    "r = y.as_strided_scatter(v, (2, 2), (1, 1)) * 1 | y=f:N v=f:2,2",
    # reads by index
    "r = y[i] | y=f:N,K i=i<N:M",
    "r = y[i, j] | y=f:N,K i=i<N:M j=i<K:M",
    "r = y[b] | y=f:N,K b=b:N",
    "r = y.gather({0|1|2}, i) | y=f:N,K i=i<N:M,K",
    "r = y.take(i) | y=f:N,K i=i<N:M",
    "r = torch.take_along_dim(y, i, {1|0|2}) | y=f:N,K i=i<K:N,M",
    "r = y.index_select({0|1|2}, i) | y=f:N,K i=i<N:M",
    "r = y.masked_select(b) | y=f:N,K b=b:N,K",
    "r = F.embedding(i, w{|, padding_idx=0|, padding_idx=9|, padding_idx=-1}) | i=i<N:M w=f:N,K",
    # eager crashes without offsets
    "r = F.embedding_bag(i, w, o if len(o) else o.new_zeros(1), mode='{mean|sum|max|prod}') | i=i<N:M w=f:N,K o=i<1:2",
    "r = F.embedding_bag(i, w{|, mode='sum'}) | i=i<N:M,K w=f:N,K",
    "r = F.one_hot(i, {5|2|-1|0}) | i=i<4:M",
    # joins and arithmetic
    "r = torch.where(b, x, y) | b=b:N,K x=f:N,K y=f:K",
    "r = torch.cat([x, y], {0|1|2}) | x=f:N,K y=f:M,K",
    "r = torch.stack([x, y], {0|-1|3}) | x=f:N,K y=f:N,K",
    "r = torch.hstack([x, y]) | x=f:N,K y=f:N,M",
    "r = torch.vstack([x, y]) | x=f:N,K y=f:M,K",
    "r = x.expand({3|2}, *y.shape) | x=f:N,K y=f:N,K",
    "r = x.expand_as(y) * 1 | x=f:1,K y=f:N,K",
    "r = x.view_as(y) * 1 | x=f:N,K y=f:K,N",
    "r = torch.broadcast_tensors(x, y)[0] + 1 | x=f:1,K y=f:N,K",
    "r = x + y | x=f:N,K y=f:K",
    "r = torch.add(x, y, alpha={2|0.5|1j|True}) | x=f:N,K y=f:N,K",
    "r = x {*|-|/|//|%|**} y | x=f:N,K y=f:N,K",
    "r = torch.{maximum|minimum|fmax|atan2|hypot|logaddexp|xlogy|copysign|nextafter|heaviside}(x, y) | x=f:N,K y=f:K",
    "r = torch.addcmul(x, y, z, value={0.5|2|1j}) | x=f:N,K y=f:N,K z=f:K",
    "r = torch.addcdiv(x, y, z) | x=f:N,K y=f:N,K z=f:N,K",
    "r = torch.lerp(x, y, z) | x=f:N,K y=f:N,K z=f:N,K",
    "r = torch.clamp(x, y, z) | x=f:N,K y=f:N,K z=f:N,K",
    "r = torch.cross(x, y, dim={-1|0}) | x=f:N,3 y=f:N,3",
    "r = torch.isclose(x, y) | x=f:N,K y=f:N,K",
    "r = torch.complex(x, y) | x=f:N,K y=f:N,K",
    "r = torch.tensordot(x, y, {1|2|0}) | x=f:N,K y=f:K,M",
    "r = torch.outer(x, y) | x=f:N y=f:M",
    "r = torch.kron(x, y) | x=f:N,K y=f:2,2",
    "r = torch.bucketize(x, y) | x=f:N,K y=f:M",
    "r = torch.searchsorted(y, x) | x=f:N,K y=f:N,M",
    "r = torch.bincount(i, x, minlength={4|-1}) | i=i<4:N x=f:N",
    "r = torch.repeat_interleave(x, i, dim={0|1|-3}) | x=f:N,K i=p:N",
    "r = torch.roll(x, {(1, 1)|1}, {(0, 1)|0|(0, 1, 2)}) | x=f:N,K",
    "r = torch.trapezoid(x, y) | x=f:N,K y=f:N,K",
    # products
    "r = x @ y | x=f:N,K y=f:K,M",
    "r = x @ y | x=f:2,N,K y=f:2,K,M",
    "r = x @ y | x=f:N,K y=f:K",
    "r = torch.addmm(z, x, y, beta={1|0.5|True|1j}) | x=f:N,K y=f:K,M z=f:M",
    "r = torch.addmv(z, x, y) | x=f:N,K y=f:K z=f:N",
    "r = torch.addr(z, x, y) | x=f:N y=f:K z=f:N,K",
    "r = torch.baddbmm(z, x, y) | x=f:2,N,K y=f:2,K,M z=f:2,N,M",
    "r = torch.addbmm(z, x, y) | x=f:2,N,K y=f:2,K,M z=f:N,M",
    "r = torch.bmm(x, y) | x=f:2,N,K y=f:2,K,M",
    "r = torch.dot(x, y) | x=f:N y=f:N",
    "r = torch.vdot(x, y) | x=f:N y=f:N",
    "r = torch.mv(x, y) | x=f:N,K y=f:K",
    "r = torch.einsum('ij,jk->ik', x, y) | x=f:N,K y=f:K,M",
    "r = F.linear(x, w, b) | x=f:N,K w=f:M,K b=f:M",
    "r = F.linear(x, w) | x=f:2,N,K w=f:M,K",
    "r = F.bilinear(x, y, w, b) | x=f:N,2 y=f:N,3 w=f:M,2,3 b=f:M",
    # layers
    "r = F.layer_norm(x, {(x.shape[-1],)|x.shape|()}, w, b) | x=f:N,K w=f:K b=f:K",
    "r = F.rms_norm(x, {(x.shape[-1],)|x.shape}, w) | x=f:N,K w=f:K",
    "r = F.group_norm(x, {2|3|1}, w, b) | x=f:N,4,3 w=f:4 b=f:4",
    "r = F.batch_norm(x, m, v, w, b, training={True|False}) | x=f:N,K m=f:K v=f:K w=f:K b=f:K",
    "r = F.batch_norm(x, m, v) | x=f:N,K,3 m=f:K v=f:K",
    "r = F.instance_norm(x, None, None, w, b) | x=f:N,3,4 w=f:3 b=f:3",
    "r = F.conv1d(x, w, b, stride={1|2|0}, padding={0|1|'same'|-1}, groups={1|2}) | x=f:N,2,5 w=f:4,2,3 b=f:4",
    "r = F.conv2d(x, w, b) | x=f:N,2,4,4 w=f:3,2,3,3 b=f:3",
    "r = F.conv_transpose1d(x, w, b) | x=f:N,2,5 w=f:2,3,3 b=f:3",
    "r = F.prelu(x, w) | x=f:N,3 w=f:3",
    "r = F.scaled_dot_product_attention(q, k, v, m) | q=f:1,2,N,4 k=f:1,2,K,4 v=f:1,2,K,4 m=f:N,K",
    "r = F.scaled_dot_product_attention(q, k, v, m) | q=f:2,2,3,4 k=f:2,2,3,4 v=f:2,2,3,4 m=b:2,1,3,3",
    "r = F.scaled_dot_product_attention(q, k, v, is_causal={True|False}) | q=f:1,2,3,4 k=f:1,2,3,4 v=f:1,2,3,4",
    "r = F.pad(x, {(1, 1)|(1, 1, 1)|(1, 1, 1, 1, 1, 1)}, mode='{constant|reflect|replicate|asdf}') | x=f:N,3,K",
    "r = F.{max_pool1d|avg_pool1d|adaptive_avg_pool1d|adaptive_max_pool1d}(x, {2|0|9}) | x=f:N,2,6",
    "r = F.{max_pool2d|avg_pool2d}(x, {2|0|9|(2, 2, 2)}, {2|0|1}, {0|1|5}) | x=f:N,2,4,4",
    "r = F.max_unpool1d(x, i, 2) | x=f:N,2,3 i=i<6:N,2,3",
    "r = F.interpolate(x, {scale_factor=2|size=3|size=(2, 2)|size=0}, mode='{nearest|linear|asdf}') | x=f:N,2,4",
    "r = F.grid_sample(x, g, align_corners=False) | x=f:N,2,3,3 g=f:N,2,2,2",
    "r = F.pixel_shuffle(x, {2|3|0}) | x=f:N,4,2,2",
    "r = F.unfold(x, {2|9|0}) | x=f:N,2,4,4",
    "r = F.glu(x, {-1|0|3}) | x=f:N,4",
    "r = F.normalize(x, dim={-1|2}) | x=f:N,K",
    "r = F.cosine_similarity(x, y, dim={-1|0|2}) | x=f:N,K y=f:N,K",
    "r = F.pairwise_distance(x, y) | x=f:N,K y=f:N,K",
    "r = torch.cdist(x, y, p={2.0|1.0|-1.0}) | x=f:N,K y=f:M,K",
    "r = F.dropout(x, {0.0|1.0|-1.0|2.0}) | x=f:N,K",
    "r = F.{gelu|elu|celu|leaky_relu|softplus|hardtanh|silu|logsigmoid|hardswish}(x) | x=f:N,K",
    "r = F.gelu(x, approximate='{none|tanh|asdf}') | x=f:N,K",
    "r = F.{softmax|log_softmax|softmin}(x, {-1|0|2|-3}) | x=f:N,K",
    "r = torch.{cumsum|cumprod|sort|amax|median|logsumexp|flip|argmax|std|all|prod}(x, {-1|0|2|-3}) | x=f:N,K",
    "r = torch.topk(x, {1|2|0|9|-1}, {-1|0|2}) | x=f:N,K",
    "r = torch.gru_cell(x, h, w, u, b, c) | x=f:N,K h=f:N,M w=f:M*3,K u=f:M*3,M b=f:M*3 c=f:M*3",
    # losses
    "r = F.cross_entropy(x, t, reduction='{mean|sum|none|asdf}') | x=f:N,K t=i<K:N",
    "r = F.cross_entropy(x, t, w, label_smoothing={0.0|0.1|2.0}) | x=f:N,K t=i<K:N w=f:K",
    "r = F.cross_entropy(x, t) | x=f:N,K t=f:N,K",
    "r = F.cross_entropy(x, t, w) | x=f:N,K,3 t=i<K:N,3 w=f:K",
    "r = F.nll_loss(x, t, reduction='{mean|sum|none}') | x=f:N,K t=i<K:N",
    "r = F.nll_loss(x, t, w) | x=f:N,K t=i<K:N w=f:K",
    "r = F.nll_loss(x, t, w) | x=f:N,K,2,2 t=i<K:N,2,2 w=f:K",
    "r = F.binary_cross_entropy(x, t, reduction='{mean|sum|none}') | x=f:N,K t=f:N,K",
    "r = F.binary_cross_entropy(x, t, w) | x=f:N,K t=f:N,K w=f:N,K",
    "r = F.binary_cross_entropy_with_logits(x, t, w, pos_weight=p) | x=f:N,K t=f:N,K w=f:N,K p=f:K",
    "r = F.binary_cross_entropy_with_logits(x, t, reduction='{mean|none}') | x=f:N,K t=f:N,K",
    "r = F.{mse_loss|l1_loss|soft_margin_loss|huber_loss|smooth_l1_loss}(x, t, reduction='{mean|sum|none|a}')"
    " | x=f:N,K t=f:N,K",
    "r = F.smooth_l1_loss(x, t, beta={1.0|0.0|-1.0|2}, reduction='{mean|none}') | x=f:N,K t=f:N,K",
    "r = F.huber_loss(x, t, delta={1.0|0.0|-1.0|2}, reduction='{mean|none}') | x=f:N,K t=f:N,K",
    "r = F.kl_div(x, t, reduction='{sum|mean|batchmean|none}', log_target={False|True}) | x=f:N,K t=f:N,K",
    "r = F.poisson_nll_loss(x, t) | x=f:N,K t=f:N,K",
    "r = F.gaussian_nll_loss(x, t, v) | x=f:N,K t=f:N,K v=f:N,K",
    "r = F.margin_ranking_loss(x, y, t) | x=f:N y=f:N t=f:N",
    "r = F.hinge_embedding_loss(x, t) | x=f:N,K t=f:N,K",
    "r = F.cosine_embedding_loss(x, y, t) | x=f:N,K y=f:N,K t=f:N",
    "r = F.triplet_margin_loss(x, y, z) | x=f:N,K y=f:N,K z=f:N,K",
    "r = F.multi_margin_loss(x, t, p={1|2|3}) | x=f:N,K t=i<K:N",
    "r = F.multi_margin_loss(x, t, weight=w) | x=f:N,K t=i<K:N w=f:K",
    "r = F.multilabel_margin_loss(x, t) | x=f:N,K t=i<K:N,K",
    "r = F.multilabel_soft_margin_loss(x, t) | x=f:N,K t=f:N,K",
    # results that are given
    "r = torch.empty({0|1}); torch.add(x, y, out=r) | x=f:N,K y=f:N,K",
    "r = torch.empty(0, dtype=torch.{complex64|complex128|float32}); torch.complex(x, y, out=r) | x=f:N y=f:N",
    "r = torch.empty(0, dtype=torch.{float32|float64|int64|float16}); torch.{mul|div|sin|add|eq}(x, y, out=r)"
    " | x=f:N,K y=f:N,K",
    "r = torch.empty(0, dtype=torch.{float32|float64|int64}); torch.mm(x, y, out=r) | x=f:N,K y=f:K,M",
    "r = torch.empty(0, dtype=torch.{float32|float64|int64}); torch.cat([x, y], out=r) | x=f:N y=f:M",
    "r = torch.empty(0, dtype=torch.{float32|float64|int64}); torch.sum(x, 0, out=r) | x=f:N,K",
    "r = torch.empty(0, dtype=torch.{float32|float64|int64}); torch.index_select(x, 0, i, out=r) | x=f:N,K i=i<N:M",
    "r = torch.empty(0, dtype=torch.{int64|float32|int32}); torch.argmax(x, 0, out=r) | x=f:N,K",
    "r = torch.empty(0, dtype=torch.{int64|float32|int32}); torch.multinomial(x, 1, out=r); r = r * 0 | x=f:N,K",
)  # fmt: skip
# Functions whose gradients eager does not compute where operands are broadcast, while compiled programs do; and norms,
# whose gradients in rows of so few elements are rounding errors.
WITHOUT_GRADIENTS = ("clamp", "huber_loss", "norm(")
# What a dtype changes to, by the kind of the operand.
DTYPES = {
    "f": ("float64", "float64", "float16", "bfloat16", "int64", "int32", "bool", "uint8", "complex64"),
    "i": ("int32", "int32", "bool", "uint8", "int16", "float32", "float64"),
    "b": ("uint8", "int64", "float32"),
    "p": ("int32", "float32", "bool"),
}


_WRITES = re.compile(r"r = y\.(index_put|put|index_reduce|index_add|index_copy|index_fill|scatter|scatter_add"
                     r"|scatter_reduce|masked_scatter|masked_fill)\(")


@dataclass(frozen=True)
class Operand:
    """An operand of the call: sizes are expressions in the letters."""

    name: str
    kind: str
    below: str
    sizes: tuple[str, ...]
    dtype: str
    expanded: bool = False

    def source(self, numbers: dict[str, int], leaf: bool) -> str:
        """The expression that makes it."""
        sizes = [max(_value(size, numbers), 0) for size in self.sizes]
        below = max(_value(self.below, numbers), 1) if self.below else 2
        more = ".requires_grad_()" if leaf and self.dtype in ("float32", "float64", "float16", "bfloat16") else ""
        if self.expanded and sizes:
            more = f".expand({sizes})"
        first = [1, *sizes[1:]] if self.expanded and sizes else sizes
        return f"operand({first}, {below if self.kind != 'f' else 0}, torch.{self.dtype}){more}"


def _value(size: str, numbers: dict[str, int]) -> int:
    """The number of an expression such as N, N-1, M*3 or 4."""
    for sign in "*-+":
        if sign in size:
            left, _, right = size.partition(sign)
            a, b = _value(left, numbers), _value(right, numbers)
            return a * b if sign == "*" else a - b if sign == "-" else a + b
    return numbers[size] if size in numbers else int(size)


def _operand(text: str) -> Operand:
    name, _, rest = text.partition("=")
    kind, _, sizes = rest.partition(":")
    kind, _, below = kind.partition("<")
    dtype = {"f": "float32", "i": "int64", "b": "bool", "p": "int64"}[kind]
    return Operand(name, kind, below, tuple(size for size in sizes.split(",") if size), dtype)


def _changed(dice: Dice, operand: Operand) -> Operand:
    """The operand with one thing about it changed."""
    sizes = list(operand.sizes)
    kind = dice.weighted(((6, "size"), (2, "rank"), (3, "dtype"), (1, "layout")))
    if kind == "layout":
        return replace(operand, expanded=True)
    if kind == "dtype" or (kind == "size" and not sizes):
        return replace(operand, dtype=dice.choice(DTYPES[operand.kind]))
    if kind == "size":
        at = dice.below(len(sizes))
        size = sizes[at]
        sizes[at] = dice.choice(("1", "0", f"{size}+1", f"{size}+1", f"{size}-1", f"{size}-1", f"{size}*2", "N", "K",
                                 "9"))  # fmt: skip
    elif sizes and dice.chance(0.5):
        del sizes[dice.below(len(sizes))]
    else:
        sizes.insert(dice.below(len(sizes) + 1), dice.choice(("1", "1", "2", "N")))
    return replace(operand, sizes=tuple(sizes))


def _arguments(dice: Dice, text: str, wrong: bool) -> str:
    """The text with an alternative chosen at each place; ``wrong``: not always the first."""
    while "{" in text:
        before, _, rest = text.partition("{")
        inside, _, after = rest.partition("}")
        choices = inside.split("|")
        names = choices[0].isidentifier() and choices[0] not in ("True", "False", "mean", "none", "sum", "constant",
                                                                 "nearest", "float32", "int64", "complex64", "amax")
        text = before + (dice.choice(choices) if names or (wrong and dice.chance(0.6)) else choices[0]) + after
    return text


def _in_place(dice: Dice, text: str) -> str:
    """The text with writes to the operand itself, in some programs."""
    if dice.chance(0.4):
        text = text.removeprefix("y = y * 1; ")
    if dice.chance(0.3):
        text = _WRITES.sub(r"r = y.\1_(", text)
    return text


#: What is made beside the function, and how the function changes it before the operator that may raise.
CHANGES = (
    ("STATE = torch.arange(6.0).reshape(2, 3)", "STATE.add_(1)"),
    ("STATE = torch.arange(6.0).reshape(2, 3)", "STATE.data.add_(1)"),
    ("STATE = torch.arange(6.0).reshape(2, 3)", "STATE.t_()"),
    ("STATE = torch.arange(6.0).reshape(2, 3)", "STATE.swapaxes_(0, 1).mul_(2)"),
    ("STATE = torch.arange(6.0)", "STATE.unsqueeze_(0)"),
    ("STATE = torch.arange(6.0)", "STATE.as_strided_((2,), (1,), 1).add_(1)"),
    ("STATE = [torch.arange(3.0), torch.zeros(2)]", "torch._foreach_add_(STATE, 1)"),
    ("STATE = torch.nn.BatchNorm1d(3)", "STATE(torch.arange(6.0).reshape(2, 3))"),
    ("STATE = torch.ones(2, requires_grad=True)\nOPTIMIZER = torch.optim.SGD([STATE], foreach=True, momentum=0.9)",
     "OPTIMIZER.zero_grad(); (STATE * 2).sum().backward(); OPTIMIZER.step()"),
    ("STATE = torch.ones(2, requires_grad=True)\nOPTIMIZER = torch.optim.Adam([STATE], fused=True)",
     "OPTIMIZER.zero_grad(); (STATE * 2).sum().backward(); OPTIMIZER.step()"),
)


def generate(seed: int) -> Program:
    """The program of this seed."""
    dice = Dice(seed)
    text, _, described = dice.choice(TABLE).rpartition(" | ")
    operands = [_operand(part) for part in described.split()]
    way = dice.weighted(((7, "operand"), (2, "argument"), (1, "none"))) if "{" in text else (
        "operand" if dice.chance(0.88) else "none")
    text = _in_place(dice, text)
    text = _arguments(dice, text, way == "argument" or dice.chance(0.1))
    if dice.chance(0.15):  # all floats of another dtype
        dtype = dice.choice(("float64", "bfloat16", "float16"))
        operands = [replace(each, dtype=dtype) if each.kind == "f" else each for each in operands]
    changed = list(operands)
    if way == "operand":
        at = dice.below(len(operands))
        changed[at] = _changed(dice, operands[at])
        if dice.chance(0.1):
            at = dice.below(len(operands))
            changed[at] = _changed(dice, changed[at])
    if "attention" in text:  # eager's kernel divides by sizes, and reads beyond values that are fewer than keys
        changed = [replace(each, sizes=old.sizes) if each.name != "m" else each
                   for each, old in zip(changed, operands, strict=True)]
    names = [each.name for each in operands]
    before = [f"    {name} = {name} * 1" for name, each in zip(names, operands, strict=True)
              if each.kind == "f" and dice.chance(0.15)]
    after = dice.choice(("", "", " * 2", ".sum()")) if "(" not in text.rpartition("r = ")[2][:1] else ""
    count = dice.weighted(((3, 1), (4, 2), (3, 3), (2, 4)))
    varies = dice.chance(0.5)
    which = dice.weighted(((4, "all"), (3, "last"), (2, "first"), (1, "some")))
    leaf = dice.chance(0.4) and not any(name in text for name in WITHOUT_GRADIENTS)
    numbers = {"N": dice.between(2, 5), "K": dice.between(2, 5), "M": dice.between(2, 6)}
    calls = []
    for index in range(count):
        if index and varies:
            for letter in numbers:
                numbers[letter] = dice.between(2, 6) if dice.chance(0.7) else numbers[letter]
        wrong = {"all": True, "last": index == count - 1, "first": index == 0, "some": dice.chance(0.5)}[which]
        given = [each.source(numbers, leaf) for each in (changed if wrong else operands)]
        calls.append(f"        (({', '.join(given)},), {{}}),")
    several = "r = torch.topk" in text or "torch.sort" in text or "median" in text
    result = "r" if several else f"r{after}"
    lines = [f"    {part.strip()}" for part in text.split(";")]
    globals_: list[str] = []
    if dice.chance(0.2):
        made, change = dice.choice(CHANGES)
        globals_ = [made]
        before.append(f"    {change}")
    source = "\n".join([
        "import torch", "import torch.nn.functional as F", "", *globals_, "",
        f"def fn({', '.join(names)}):", *before, *lines, f"    return {result}", "", "",
        "def operand(sizes, below, dtype):",
        "    count = torch.Size(sizes).numel()",
        "    values = torch.arange(count) % below if below else (torch.arange(count) + 1) ** 2 * 0.077 % 0.8 + 0.1",
        "    return values.reshape(sizes).to(dtype)", "", "",
        "def make():", "    calls = [", *calls, "    ]",
        "    return fn, calls, lambda index: None, lambda: {}", "",
    ])  # fmt: skip
    return Program(seed, source)
