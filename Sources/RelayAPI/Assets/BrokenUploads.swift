import Records
import RelayCore
import Synchronization

/// Uploads that broke off: what came of them stays for a while, so that their clients can go on from there.
///
/// An extension of ours (see Wire.md, "Extensions"), in the words of the IETF's resumable uploads: a GET or HEAD of an
/// upload address answers with the header `Upload-Offset`, how many bytes of a body without parts are here; a POST or
/// PUT with that header goes on from there. Whoever sends none begins anew. Kept in memory but for the bytes, which are
/// in the files that uploads are written to: a restart of the relay forgets it all, and removes them.
final class BrokenUploads: Sendable {
    /// What is here of one upload.
    // Unchecked for the intake: the lock hands it from one thread to the next, and one at a time uses it.
    struct Part: @unchecked Sendable {
        let intake: any AssetIntake
        let size: Int64
    }

    /// Whose upload it was.
    struct Owner: Hashable {
        var home: ContainerEnvironment
        var user: UserID

        init(_ upload: Upload) {
            home = upload.home
            user = upload.user
        }
    }

    private struct Entry {
        var part: Part
        var owner: Owner
        /// By uptime: what a clock that was ahead has noted would stay, and hold the places of all others.
        var until: Duration
    }

    /// Beyond these one goes of whoever has the most: nobody is to fill the disk with beginnings, nor take the others'
    /// places.
    private static let mostParts = 64
    private static let mostBytes: Int64 = 512 * 1024 * 1024
    /// Beyond these the owner's own that ends first goes.
    static let mostPartsEach = 8

    private let parts = Mutex<[String: Entry]>([:])

    /// Keeps a part; it holds no descriptor from here on.
    func add(_ part: Part, of owner: Owner, at address: String, until end: Duration, at now: Duration) {
        part.intake.rest()
        let dropped = parts.withLock { parts -> [Entry] in
            var dropped = Self.takeEnded(of: &parts, at: now)
            dropped += [parts.updateValue(Entry(part: part, owner: owner, until: end), forKey: address)]
                .compactMap { $0 }
            while let address = Self.tooMuch(of: parts, since: owner) {
                dropped += [parts.removeValue(forKey: address)].compactMap { $0 }
            }
            return dropped
        }
        // Their files are removed here, and not under the lock.
        _ = dropped
    }

    /// Drops those whose time is over.
    func dropEnded(at now: Duration) {
        // Their files are removed here, and not under the lock.
        _ = parts.withLock { Self.takeEnded(of: &$0, at: now) }
    }

    private static func takeEnded(of parts: inout [String: Entry], at now: Duration) -> [Entry] {
        let ended = parts.filter { $0.value.until <= now }
        for address in ended.keys { parts[address] = nil }
        return Array(ended.values)
    }

    /// The one that is to go since `owner` has brought another; `nil` where there is room for all.
    private static func tooMuch(of parts: [String: Entry], since owner: Owner) -> String? {
        if parts.values.count(where: { $0.owner == owner }) > mostPartsEach { return first(of: owner, in: parts) }
        if parts.values.reduce(0, { $0 + $1.part.size }) > mostBytes {
            return heaviest(in: parts, by: \.part.size).flatMap { first(of: $0, in: parts) }
        }
        guard parts.count > mostParts else { return nil }
        return heaviest(in: parts, by: { _ in 1 }).flatMap { first(of: $0, in: parts) }
    }

    private static func heaviest(in parts: [String: Entry], by weight: (Entry) -> Int64) -> Owner? {
        let weights = Dictionary(parts.values.map { ($0.owner, weight($0)) }, uniquingKeysWith: +)
        return weights.max { $0.value < $1.value }?.key
    }

    /// The owner's one that ends first.
    private static func first(of owner: Owner, in parts: [String: Entry]) -> String? {
        parts.filter { $0.value.owner == owner }.min { $0.value.until < $1.value.until }?.key
    }

    /// Takes what there is of an upload, to go on with it where it came to `offset`, or with 0 to be rid of it.
    ///
    /// `nil` where that is not so: of two who go on at once, one does.
    func take(_ address: String, at offset: Int64) -> Part? {
        parts.withLock { parts in
            guard offset == 0 || parts[address]?.part.reach == offset else { return nil }
            return parts.removeValue(forKey: address)?.part
        }
    }

    func size(of address: String) -> Int64 { parts.withLock { $0[address]?.part.reach ?? 0 } }
}
