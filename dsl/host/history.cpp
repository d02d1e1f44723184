#include "dsl/host/history.hpp"

#include <algorithm>

namespace tessera::host {

namespace {
constexpr int warp_size = 32;
std::size_t warp_of(int thread) { return static_cast<std::size_t>(thread / warp_size); }
}  // namespace

SharedHistory::SharedHistory(std::size_t bytes, std::size_t piece, int threads, const std::vector<ir::WarpRole>& roles)
    : piece_(piece),
      pieces_((bytes + piece - 1) / piece),
      more_roles_(roles.empty() ? 0 : roles.size() - 1),
      more_readers_(pieces_.size() * more_roles_),
      epochs_(warp_of(threads - 1) + 1, 1),
      known_(epochs_.size() * epochs_.size(), 1) {
    role_of_.assign(epochs_.size(), 0);
    for (std::size_t r = 0; r < roles.size(); ++r)
        for (int w = 0; w < roles[r].warps; ++w) role_of_[static_cast<std::size_t>(roles[r].first_warp + w)] = r;
}

void SharedHistory::begin_block() {
    std::uint32_t last = 0;
    for (std::uint32_t e : epochs_) last = std::max(last, e);
    if (last >= 0x80000000u) {  // epochs never run out: start anew
        std::fill(pieces_.begin(), pieces_.end(), Piece{});
        std::fill(more_readers_.begin(), more_readers_.end(), Readers{});
        last = 0;
    }
    block_start_ = last + 1;
    std::fill(epochs_.begin(), epochs_.end(), block_start_);
    std::fill(known_.begin(), known_.end(), block_start_);
}

void SharedHistory::barrier(int first_thread, int threads) {
    const std::size_t begin = warp_of(first_thread), end = warp_of(first_thread + threads - 1) + 1;
    for (std::size_t w = begin; w < end; ++w) known(begin, w) = ++epochs_[w];
    for (std::size_t other = 0; other < epochs_.size(); ++other) {
        std::uint32_t best = 0;
        for (std::size_t w = begin; w < end; ++w) best = std::max(best, known(w, other));
        for (std::size_t w = begin; w < end; ++w) known(w, other) = best;
    }
}

void SharedHistory::release(Clock& clock, int first_thread, int threads) {
    clock.resize(epochs_.size(), 0);
    for (std::size_t w = warp_of(first_thread); w <= warp_of(first_thread + threads - 1); ++w) {
        known(w, w) = ++epochs_[w];
        for (std::size_t other = 0; other < epochs_.size(); ++other)
            clock[other] = std::max(clock[other], known(w, other));
    }
}

void SharedHistory::acquire(const Clock& clock, int first_thread, int threads) {
    for (std::size_t w = warp_of(first_thread); w <= warp_of(first_thread + threads - 1); ++w)
        for (std::size_t other = 0; other < clock.size(); ++other)
            known(w, other) = std::max(known(w, other), clock[other]);
}

/// Whether the thread has learned at a barrier that the touch's epoch has passed.
bool SharedHistory::over(const Touch& t, int thread) const {
    return t.epoch < known_[warp_of(thread) * epochs_.size() + warp_of(t.thread)];
}

bool SharedHistory::ordered(const Touch& t, int thread) const { return t.thread == thread || over(t, thread); }

/// Of several that have added only the last is known: nobody comes after them without a barrier.
bool SharedHistory::writer_ordered(const Piece& piece, int thread) const {
    return piece.how == Piece::added_by_several ? over(piece.writer, thread) : ordered(piece.writer, thread);
}

SharedHistory::Touch SharedHistory::now(int thread, std::size_t access) const {
    return {epochs_[warp_of(thread)], static_cast<std::uint16_t>(thread), static_cast<std::uint16_t>(access)};
}

void SharedHistory::note_reader(std::size_t piece, const Touch& touch) {
    const std::size_t role = role_of_[warp_of(touch.thread)];
    Readers& r = role == 0 ? pieces_[piece].readers : more_readers_[piece * more_roles_ + role - 1];
    if (r.earlier.thread == touch.thread && happened(r.earlier)) {
        r.earlier = touch;
        return;
    }
    if (happened(r.latest) && r.latest.thread != touch.thread) r.earlier = r.latest;
    r.latest = touch;
}

void SharedHistory::write_to(std::size_t piece, const Piece& written) {
    pieces_[piece] = written;
    for (std::size_t r = 0; r < more_roles_; ++r) more_readers_[piece * more_roles_ + r] = {};
}

const SharedHistory::Touch* SharedHistory::unordered_reader(std::size_t piece, int thread) const {
    const auto found = [&](const Readers& r) -> const Touch* {
        for (const Touch* t : {&r.latest, &r.earlier})
            if (happened(*t) && !ordered(*t, thread)) return t;
        return nullptr;
    };
    const Touch* reader = found(pieces_[piece].readers);
    for (std::size_t r = 0; r < more_roles_ && !reader; ++r) reader = found(more_readers_[piece * more_roles_ + r]);
    return reader;
}

SharedHistory::Finding SharedHistory::read(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) {
        const Piece& piece = pieces_[p];
        if (!happened(piece.writer)) return {Verdict::unwritten, p * piece_, {}};
        if (!writer_ordered(piece, thread)) return {Verdict::after_write, p * piece_, piece.writer};
        note_reader(p, touch);
    }
    return {};
}

SharedHistory::Finding SharedHistory::write(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) {
        const Piece& piece = pieces_[p];
        if (happened(piece.writer) && !writer_ordered(piece, thread))
            return {Verdict::after_write, p * piece_, piece.writer};
        if (const Touch* reader = unordered_reader(p, thread)) return {Verdict::after_read, p * piece_, *reader};
        write_to(p, {touch, {}});
    }
    return {};
}

void SharedHistory::complete(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) write_to(p, {touch, {}});
}

SharedHistory::Finding SharedHistory::add(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) {
        const Piece piece = pieces_[p];
        if (!happened(piece.writer)) return {Verdict::unwritten, p * piece_, {}};
        const bool alone = writer_ordered(piece, thread);
        if (!alone && piece.how == Piece::stored) return {Verdict::after_write, p * piece_, piece.writer};
        if (const Touch* reader = unordered_reader(p, thread)) return {Verdict::after_read, p * piece_, *reader};
        // What the thread itself has stored since the last barrier, the others must still wait for.
        if (over(piece.writer, thread))
            write_to(p, {touch, {}, Piece::added});
        else if (piece.how != Piece::stored)
            write_to(p, {touch, {}, alone ? piece.how : Piece::added_by_several});
    }
    return {};
}

}  // namespace tessera::host
