#include "kernels/mhc_mixes.hpp"
#include "tests/support/kernels/mhc_check_support.hpp"

namespace tessera::test {

std::string check_mhc_sinkhorn(const Device& device, const MhcCase& c) {
    return checked(c, [&] {
        const Stream stream = device.stream();
        Random random(c.seed);
        const std::int64_t m = c.streams, count = c.tokens * m * m;
        const Numbers x = normal_numbers(random, count, c.size), g = normal_numbers(random, count);
        CallTensors t(stream, c.shift);
        const Shape extents = leading(c, {m, m});
        const TensorView logits = t.input(f32, extents, x), grad = t.input(f32, extents, g);
        const TensorView y = t.output(f32, extents), dx = t.output(f32, extents), again = t.output(f32, extents);
        const mhc::SinkhornOptions options{c.repeat, c.eps};
        mhc::sinkhorn_forward(stream, logits, y, options);
        mhc::sinkhorn_backward(stream, logits, grad, dx, options);
        mhc::sinkhorn_backward(stream, logits, grad, again, options);
        stream.synchronize();
        const bool plain = c.size == 1.0 && c.repeat <= 20;
        const auto e = extents_of(c);
        const double eps = static_cast<double>(c.eps);
        return first_of(
            {mhc_reference::difference("y", t.read(y), mhc_reference::sinkhorn(e, x, c.repeat, eps, plain)),
             mhc_reference::difference("dx", t.read(dx), mhc_reference::sinkhorn_gradient(e, x, g, c.repeat, eps)),
             t.bytes(dx) == t.bytes(again) ? "" : "two runs differ", t.changed_input(),
             same("y", t.read(y), numbers_of(stream, mhc::sinkhorn_forward(stream, logits, options))),
             same("dx", t.read(dx), numbers_of(stream, mhc::sinkhorn_backward(stream, logits, grad, options)))});
    });
}

}  // namespace tessera::test
