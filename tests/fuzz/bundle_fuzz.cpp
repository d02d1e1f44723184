// The reader of a bundle's index on any bytes: what it takes lies inside of the file, in order, and is what the writer
// writes. Each input is read as it is and again with its checksum put right.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "runtime/cache/bundle_index.hpp"
#include "runtime/cache/entry.hpp"

using namespace tessera::runtime;

namespace {

void must(bool holds) {
    if (!holds) std::abort();
}

void read(std::span<const std::byte> file) {
    const auto header = decode_bundle_header(file, file.size());
    if (!header) return;
    must(header->index_offset + header->index_bytes() == file.size());
    const auto index = file.subspan(static_cast<std::size_t>(header->index_offset));
    const auto items = decode_bundle_index(*header, index);
    if (!items) return;
    must(items->size() == header->entries);
    const auto again = encode_bundle_index(*header, *items);
    must(again.size() == index.size() && std::memcmp(again.data(), index.data(), index.size()) == 0);
    for (const BundleItem& item : *items) {
        must(item.offset >= bundle_header_bytes && item.offset <= header->index_offset);
        must(item.bytes <= header->index_offset - item.offset);
        (void)decode_entry(file.subspan(static_cast<std::size_t>(item.offset), static_cast<std::size_t>(item.bytes)));
    }
}

std::vector<std::byte> put_right(std::span<const std::byte> file) {
    std::vector<std::byte> bytes(file.begin(), file.end());
    const auto header = decode_bundle_header(file, file.size());
    if (!header) return bytes;
    Hasher hasher;
    hasher.add(std::span(bytes).first(bundle_header_bytes));
    const std::size_t end = bytes.size() - sizeof(Digest);
    hasher.add(std::span(bytes).subspan(static_cast<std::size_t>(header->index_offset),
                                        end - static_cast<std::size_t>(header->index_offset)));
    const Digest sum = hasher.finish();
    std::memcpy(bytes.data() + end, sum.data(), sum.size());
    return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto file = std::as_bytes(std::span(data, size));
    read(file);
    read(put_right(file));
    return 0;
}
