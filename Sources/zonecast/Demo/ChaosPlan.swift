/// A random test plan: the same seed and the same client states produce the same steps.
///
/// A value without clients. Offline times and outages are bounded, so that changes always get through eventually.
struct ChaosPlan: Sendable {
    enum Step: Equatable, Sendable {
        case add(client: Int)
        case edit(client: Int, note: String)
        case delete(client: Int, note: String)
        case post(client: Int)
        case cut(client: Int)
        case heal(client: Int)
        case restart(client: Int)
        case killRelay
        case startRelay
    }

    /// The maximum number of steps a client stays offline.
    static let longestCut = 16
    /// The maximum number of steps the relay stays down.
    static let longestOutage = 10

    private let clients: Int
    private let hasRelay: Bool
    private var dice: Dice
    /// The remaining offline steps, by client.
    private var away: [Int: Int] = [:]
    /// The remaining steps without a relay; 0: the relay is running.
    private var outage = 0
    /// The clients that have written each note.
    ///
    /// A note written by two devices is never deleted: whether a late edit or the deletion wins depends on the merge
    /// policy, so neither outcome would be a loss.
    private var writers: [String: Set<Int>] = [:]
    private var deleted: Set<String> = []

    /// - Parameters:
    ///   - clients: The number of clients.
    ///   - hasRelay: Whether the relay may be killed.
    ///   - seed: The seed of the random numbers.
    init(clients: Int, hasRelay: Bool, seed: UInt64) {
        self.clients = clients
        self.hasRelay = hasRelay
        dice = Dice(state: seed)
    }

    /// Returns the next step; `notes` returns the names of the notes that a client shows.
    mutating func next(notes: (Int) -> [String]) -> Step {
        for (client, steps) in away { away[client] = steps - 1 }
        if let back = away.filter({ $0.value <= 0 }).keys.min() {
            away[back] = nil
            return .heal(client: back)
        }
        if outage > 0 {
            outage -= 1
            if outage == 0 { return .startRelay }
        }
        let client = Int(dice.next(below: UInt64(clients)))
        switch dice.next(below: 100) {
        case ..<12 where away[client] == nil:
            away[client] = 1 + Int(dice.next(below: UInt64(Self.longestCut)))
            return .cut(client: client)
        case 12..<16: return .restart(client: client)
        case 16..<18 where hasRelay && outage == 0:
            outage = 1 + Int(dice.next(below: UInt64(Self.longestOutage)))
            return .killRelay
        case 18..<22: return .post(client: client)
        case 22..<60: return edit(client, notes(client)) ?? .add(client: client)
        case 60..<68: return delete(client, notes(client)) ?? .add(client: client)
        default: return .add(client: client)
        }
    }

    /// Records the name of a new note and its author.
    mutating func added(_ note: String, by client: Int) { writers[note, default: []].insert(client) }

    private mutating func edit(_ client: Int, _ notes: [String]) -> Step? {
        guard let note = choose(notes.filter { !deleted.contains($0) }) else { return nil }
        writers[note, default: []].insert(client)
        return .edit(client: client, note: note)
    }

    private mutating func delete(_ client: Int, _ notes: [String]) -> Step? {
        guard let note = choose(notes.filter { writers[$0] == [client] && !deleted.contains($0) }) else { return nil }
        deleted.insert(note)
        return .delete(client: client, note: note)
    }

    private mutating func choose(_ notes: [String]) -> String? {
        notes.isEmpty ? nil : notes[Int(dice.next(below: UInt64(notes.count)))]
    }

    /// SplitMix64: small, and identical on all machines.
    private struct Dice {
        var state: UInt64

        mutating func next(below bound: UInt64) -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var word = state
            word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
            word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
            return (word ^ (word >> 31)) % bound
        }
    }
}
