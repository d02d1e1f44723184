#include "dsl/host/history.hpp"

#include <algorithm>

namespace tessera::host {

namespace {
constexpr int warp_size = 32;
std::size_t warp_of(int thread) { return static_cast<std::size_t>(thread / warp_size); }
}  // namespace

SharedHistory::SharedHistory(std::size_t bytes, std::size_t piece, int threads, const std::vector<std::size_t>& teams)
    : piece_(piece),
      pieces_((bytes + piece - 1) / piece),
      team_of_(teams),
      more_teams_(teams.empty() ? 0 : *std::max_element(teams.begin(), teams.end())),
      more_(pieces_.size() * more_teams_),
      epochs_(warp_of(threads - 1) + 1, 1),
      known_(epochs_.size() * epochs_.size(), 1) {
    team_of_.resize(epochs_.size(), 0);
}

void SharedHistory::begin_block() {
    std::uint32_t last = 0;
    for (std::uint32_t e : epochs_) last = std::max(last, e);
    if (last >= 0x80000000u) {  // epochs never run out: start anew
        std::fill(pieces_.begin(), pieces_.end(), Piece{});
        std::fill(more_.begin(), more_.end(), Team{});
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

/// Whether all that have stored or added are over.
bool SharedHistory::writers_over(std::size_t piece, int thread) const {
    bool all = over(pieces_[piece].writer, thread);
    if (pieces_[piece].how == Piece::added_by_several)
        for (std::size_t t = 0; t <= more_teams_; ++t) {
            const Touch& added = team_at(piece, t).added;
            all = all && (!happened(added) || over(added, thread));
        }
    return all;
}

bool SharedHistory::writer_ordered(std::size_t piece, int thread) const {
    const Piece& p = pieces_[piece];
    return p.how == Piece::added_by_several ? writers_over(piece, thread) : ordered(p.writer, thread);
}

SharedHistory::Touch SharedHistory::now(int thread, std::size_t access) const {
    return {epochs_[warp_of(thread)], static_cast<std::uint16_t>(thread), static_cast<std::uint16_t>(access)};
}

void SharedHistory::note_reader(std::size_t piece, const Touch& touch) {
    Team& team = team_at(piece, team_of_[warp_of(touch.thread)]);
    if (team.earlier.thread == touch.thread && happened(team.earlier)) {
        team.earlier = touch;
        return;
    }
    if (happened(team.latest) && team.latest.thread != touch.thread) team.earlier = team.latest;
    team.latest = touch;
}

void SharedHistory::write_to(std::size_t piece, const Touch& writer) {
    pieces_[piece] = {writer, {}};
    for (std::size_t t = 0; t < more_teams_; ++t) more_[piece * more_teams_ + t] = {};
}

/// Readers stay: others that add must come after them, too.
void SharedHistory::add_to(std::size_t piece, const Touch& touch) {
    pieces_[piece].writer = touch;
    team_at(piece, team_of_[warp_of(touch.thread)]).added = touch;
}

const SharedHistory::Touch* SharedHistory::unordered_reader(std::size_t piece, int thread) const {
    for (std::size_t t = 0; t <= more_teams_; ++t) {
        const Team& team = team_at(piece, t);
        for (const Touch* reader : {&team.latest, &team.earlier})
            if (happened(*reader) && !ordered(*reader, thread)) return reader;
    }
    return nullptr;
}

SharedHistory::Finding SharedHistory::read(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) {
        const Piece& piece = pieces_[p];
        if (!happened(piece.writer)) return {Verdict::unwritten, p * piece_, {}};
        if (!writer_ordered(p, thread)) return {Verdict::after_write, p * piece_, piece.writer};
        note_reader(p, touch);
    }
    return {};
}

SharedHistory::Finding SharedHistory::write(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) {
        const Piece& piece = pieces_[p];
        if (happened(piece.writer) && !writer_ordered(p, thread))
            return {Verdict::after_write, p * piece_, piece.writer};
        if (const Touch* reader = unordered_reader(p, thread)) return {Verdict::after_read, p * piece_, *reader};
        write_to(p, touch);
    }
    return {};
}

void SharedHistory::complete(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) write_to(p, touch);
}

SharedHistory::Finding SharedHistory::add(std::size_t byte, std::size_t bytes, int thread, std::size_t access) {
    const Touch touch = now(thread, access);
    for (std::size_t p = byte / piece_; p < (byte + bytes + piece_ - 1) / piece_; ++p) {
        Piece& piece = pieces_[p];
        if (!happened(piece.writer)) return {Verdict::unwritten, p * piece_, {}};
        const bool alone = writer_ordered(p, thread);
        if (!alone && piece.how == Piece::stored) return {Verdict::after_write, p * piece_, piece.writer};
        if (const Touch* reader = unordered_reader(p, thread)) return {Verdict::after_read, p * piece_, *reader};
        // What the thread itself has stored since the last barrier, the others must still wait for.
        if (writers_over(p, thread))
            piece.how = Piece::added, add_to(p, touch);
        else if (piece.how != Piece::stored)
            piece.how = alone ? piece.how : Piece::added_by_several, add_to(p, touch);
    }
    return {};
}

}  // namespace tessera::host
