/// What chaos does next, drawn from a seed: the same seed and the same answers of the clients give the same steps.
///
/// A value without clients. Cuts and dead relays are bounded, so that something always gets through.
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

    /// How many steps a client is away at the most.
    static let longestCut = 16
    /// How many steps there is no relay at the most.
    static let longestOutage = 10

    private let clients: Int
    private let hasRelay: Bool
    private var dice: Dice
    /// By client: for how many steps more it is away.
    private var away: [Int: Int] = [:]
    /// For how many steps more there is no relay; 0: there is one.
    private var outage = 0
    /// Who has written a note.
    ///
    /// One that two devices have written is not deleted: what a late edit of the other makes of it is
    /// a matter of policy, and no loss.
    private var writers: [String: Set<Int>] = [:]
    private var deleted: Set<String> = []

    /// - Parameters:
    ///   - clients: How many there are.
    ///   - hasRelay: Whether the relay may be killed.
    ///   - seed: Decides everything.
    init(clients: Int, hasRelay: Bool, seed: UInt64) {
        self.clients = clients
        self.hasRelay = hasRelay
        dice = Dice(state: seed)
    }

    /// The next step; `notes` gives what a client shows of its user's notes.
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

    /// Says what a new note is called.
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

    /// SplitMix64: small, and the same on every machine.
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
