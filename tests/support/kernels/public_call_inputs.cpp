#include "tests/support/kernels/public_call_inputs.hpp"

#include <bit>

#include "runtime/prepare.hpp"

namespace tessera::test {

Tensor filled(const Stream& stream, Element element, const Shape& extents, Random& random) {
    const Tensor host = Tensor::empty(Device::host(), element, extents);
    auto* const bytes = host.as<std::uint8_t>();
    for (std::int64_t i = 0; i < host.bytes(); ++i) {
        const auto any = static_cast<std::uint8_t>(random.next());
        bytes[i] = element == ue8m0 || element == i32 ? static_cast<std::uint8_t>(120 + any % 16) : any & 0x77;
    }
    for (std::int64_t i = 0; element == bf16 && i < host.count(); ++i)
        host.as<std::uint16_t>()[i] =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(4 * random.unit() - 2)) >> 16);
    for (std::int64_t i = 0; element == f32 && i < host.count(); ++i)
        host.as<float>()[i] = static_cast<float>(4 * random.unit() - 2);
    return Tensor::from_host(stream, element, extents, host.data());
}

Tensor positive(const Stream& stream, const Shape& extents, Random& random) {
    const Tensor host = Tensor::empty(Device::host(), f32, extents);
    for (std::int64_t i = 0; i < host.count(); ++i) host.as<float>()[i] = static_cast<float>(0.5 + random.unit());
    return Tensor::from_host(stream, f32, extents, host.data());
}

Tensor shuffled(const Stream& stream, std::int64_t count, const Shape& extents, Random& random) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto j = static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i)));
        numbers[i] = numbers[j];
        numbers[j] = static_cast<std::int32_t>(i);
    }
    return Tensor::from_host(stream, i32, extents, numbers.data());
}

PreparedCall call_of(std::vector<Tensor> inputs, std::function<std::vector<Tensor>()> allocate,
                     const std::function<std::function<void()>(Out)>& into) {
    PreparedCall call;
    call.inputs = std::move(inputs);
    call.run_and_allocate = std::move(allocate);
    prepare([&] { call.outputs = call.run_and_allocate(); });
    call.run = into(call.outputs);
    prepare(call.run);
    return call;
}

Tensor ids(const Stream& stream, const Shape& extents, std::int64_t bound, Random& random) {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(extents.count()));
    for (std::int64_t& n : numbers) n = random.between(-1, bound - 1);
    return Tensor::from_host(stream, i64, extents, numbers.data());
}

PreparedCall call_in_place(const Stream& stream, std::vector<Tensor> inputs, const std::vector<Tensor>& first,
                           const std::function<void(Out)>& run) {
    const auto run_on = [=](Out work) {
        for (std::size_t i = 0; i < first.size(); ++i) copy(stream, work[i], first[i]);
        run(work);
    };
    inputs.insert(inputs.end(), first.begin(), first.end());
    return call_of(
        std::move(inputs),
        [=] {
            std::vector<Tensor> work;
            for (const Tensor& t : first) work.push_back(Tensor::empty(stream, t.element(), t.extents()));
            run_on(work);
            return work;
        },
        [=](Out o) { return [=] { run_on(o); }; });
}

}  // namespace tessera::test
