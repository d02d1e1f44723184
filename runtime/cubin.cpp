#include "runtime/cubin.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <elf.h>

#include "dsl/base/error.hpp"

namespace tessera::runtime {

namespace {

constexpr std::uint16_t machine_cuda = 190;
constexpr unsigned char kernel_mark = 0x10;     // in a symbol's st_other: an entry point, not a device function
constexpr std::size_t instruction_bytes = 16;   // since sm_70
constexpr std::int64_t reserved_shared = 1024;  // since sm_90 counted into .nv.shared.<kernel>
constexpr std::uint8_t attribute_registers = 0x2f;
constexpr std::uint8_t attribute_frame = 0x11;
constexpr std::uint8_t sized_value = 4;  // format of an attribute: a 16-bit length and that many bytes

[[noreturn]] void damaged(const std::string& what) {
    throw UsageError("these bytes are no readable cubin: " + what +
                     ". If they come from the cubin cache, `tessera cache verify` finds damaged entries; else pass the "
                     "whole file that NVRTC, nvcc or ptxas wrote.");
}

/// The sections of an ELF file; every access is checked against the size of the file.
class Elf {
public:
    explicit Elf(std::span<const std::byte> bytes) : bytes_(bytes) {
        if (!looks_like_elf(bytes)) damaged("they do not begin with the ELF magic");
        header_ = record<Elf64_Ehdr>(bytes, 0);
        if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
            header_.e_machine != machine_cuda) {
            damaged("they are an ELF file of another machine than a CUDA device");
        }
        if (header_.e_shentsize != sizeof(Elf64_Shdr)) damaged("the section headers have an unknown size");
        const auto table = part(bytes, header_.e_shoff, header_.e_shnum * sizeof(Elf64_Shdr));
        for (std::size_t i = 0; i < header_.e_shnum; ++i) {
            sections_.push_back(record<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr)));
        }
        if (header_.e_shstrndx >= sections_.size()) damaged("the section names are missing");
    }

    template <class T>
    static T record(std::span<const std::byte> bytes, std::size_t offset) {
        if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) damaged("they end too early");
        T value;
        std::memcpy(&value, bytes.data() + offset, sizeof value);
        return value;
    }

    const std::vector<Elf64_Shdr>& sections() const { return sections_; }

    std::span<const std::byte> contents(const Elf64_Shdr& section) const {
        if (section.sh_type == SHT_NOBITS) return {};
        return part(bytes_, section.sh_offset, section.sh_size);
    }

    std::string_view name(const Elf64_Shdr& section) const {
        return text(contents(sections_[header_.e_shstrndx]), section.sh_name);
    }

    const Elf64_Shdr* find(std::string_view wanted) const {
        for (const Elf64_Shdr& section : sections_) {
            if (name(section) == wanted) return &section;
        }
        return nullptr;
    }

    static std::string_view text(std::span<const std::byte> strings, std::uint64_t offset) {
        if (offset >= strings.size()) damaged("a name lies outside of the table of names");
        const char* begin = reinterpret_cast<const char*>(strings.data()) + offset;
        const void* end = std::memchr(begin, 0, strings.size() - offset);
        if (!end) damaged("a name does not end");
        return {begin, static_cast<std::size_t>(static_cast<const char*>(end) - begin)};
    }

private:
    static std::span<const std::byte> part(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t size) {
        if (offset > bytes.size() || size > bytes.size() - offset) damaged("a section lies outside of the file");
        return bytes.subspan(offset, size);
    }

    std::span<const std::byte> bytes_;
    Elf64_Ehdr header_{};
    std::vector<Elf64_Shdr> sections_;
};

struct KernelSymbol {
    std::uint32_t index;
    std::string_view name;
};

std::vector<KernelSymbol> kernel_symbols(const Elf& elf) {
    const Elf64_Shdr* symbols = elf.find(".symtab");
    const Elf64_Shdr* strings = elf.find(".strtab");
    if (!symbols || !strings) damaged("they have no table of symbols");
    const auto table = elf.contents(*symbols);
    std::vector<KernelSymbol> kernels;
    for (std::size_t i = 0; i < table.size() / sizeof(Elf64_Sym); ++i) {
        const auto symbol = Elf::record<Elf64_Sym>(table, i * sizeof(Elf64_Sym));
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !(symbol.st_other & kernel_mark)) continue;
        kernels.push_back({static_cast<std::uint32_t>(i), Elf::text(elf.contents(*strings), symbol.st_name)});
    }
    return kernels;
}

/// The value that an attribute of .nv.info gives to a symbol: records are (format, attribute, 16-bit length or value),
/// followed by that many bytes if the format says so; here (symbol, value).
std::optional<std::uint32_t> attribute_of(std::span<const std::byte> info, std::uint8_t attribute,
                                          std::uint32_t symbol) {
    struct Head {
        std::uint8_t format, attribute;
        std::uint16_t length;
    };
    struct Pair {
        std::uint32_t symbol, value;
    };
    while (info.size() >= sizeof(Head)) {
        const auto head = Elf::record<Head>(info, 0);
        info = info.subspan(sizeof(Head));
        if (head.format != sized_value) continue;
        if (head.length > info.size()) damaged("an attribute of .nv.info is cut off");
        if (head.attribute == attribute && head.length == sizeof(Pair)) {
            const auto pair = Elf::record<Pair>(info, 0);
            if (pair.symbol == symbol) return pair.value;
        }
        info = info.subspan(head.length);
    }
    return std::nullopt;
}

int as_count(std::optional<std::uint64_t> value, const char* what) {
    if (!value) damaged(std::string("they do not say the ") + what);
    if (*value > (1u << 30)) damaged(std::string("an absurd number of ") + what);
    return static_cast<int>(*value);
}

std::int64_t static_shared_bytes(const Elf& elf, const std::string& kernel) {
    const Elf64_Shdr* section = elf.find(".nv.shared." + kernel);
    if (!section) return 0;
    const std::int64_t bytes = as_count(section->sh_size, "bytes of shared memory");
    const bool reserved = elf.find(".nv.shared.reserved.0") != nullptr;
    return reserved ? std::max<std::int64_t>(0, bytes - reserved_shared) : bytes;
}

std::int64_t number_before(std::string_view line, std::string_view words) {
    const std::size_t at = line.find(words);
    if (at == std::string_view::npos) return -1;
    std::size_t begin = at;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(line.data() + begin, line.data() + at, number);
    return error == std::errc() ? number : -1;
}

}  // namespace

bool looks_like_elf(std::span<const std::byte> bytes) {
    return bytes.size() >= sizeof(Elf64_Ehdr) && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
}

std::vector<CubinFacts> read_cubin(std::span<const std::byte> cubin) {
    const Elf elf(cubin);
    const Elf64_Shdr* info_section = elf.find(".nv.info");
    if (!info_section) damaged("they have no section .nv.info");
    const auto info = elf.contents(*info_section);
    std::vector<CubinFacts> all;
    for (const KernelSymbol& symbol : kernel_symbols(elf)) {
        CubinFacts facts;
        facts.kernel = symbol.name;
        facts.registers = as_count(attribute_of(info, attribute_registers, symbol.index), "registers of a kernel");
        facts.stack_bytes = as_count(attribute_of(info, attribute_frame, symbol.index), "stack bytes of a kernel");
        const Elf64_Shdr* code = elf.find(".text." + facts.kernel);
        if (!code) damaged("the code of kernel " + facts.kernel + " is missing");
        facts.instructions = as_count(elf.contents(*code).size() / instruction_bytes, "instructions");
        facts.static_shared_bytes = static_shared_bytes(elf, facts.kernel);
        all.push_back(std::move(facts));
    }
    if (all.empty()) damaged("they contain no kernel");
    std::sort(all.begin(), all.end(), [](const CubinFacts& a, const CubinFacts& b) { return a.kernel < b.kernel; });
    return all;
}

std::optional<Spills> spills_in_log(std::string_view log) {
    std::optional<Spills> sum;
    while (!log.empty()) {
        const std::size_t end = std::min(log.find('\n'), log.size());
        const std::string_view line = log.substr(0, end);
        const std::int64_t stores = number_before(line, " bytes spill stores");
        const std::int64_t loads = number_before(line, " bytes spill loads");
        if (stores >= 0 || loads >= 0) {
            if (!sum) sum.emplace();
            sum->store_bytes += std::max<std::int64_t>(0, stores);
            sum->load_bytes += std::max<std::int64_t>(0, loads);
        }
        log.remove_prefix(std::min(end + 1, log.size()));
    }
    return sum;
}

}  // namespace tessera::runtime
