import Records
import RelayCore
import Synchronization

/// Interrupted uploads, stored for a while so that clients can resume them.
///
/// A Zonecast extension (see Wire.md, "Extensions") that follows the IETF's draft for resumable uploads. A GET or HEAD
/// request to an upload address returns the header `Upload-Offset`, the number of bytes received of a body that is not
/// multipart; a POST or PUT request with that header resumes there. Without the header, the upload starts again. The
/// entries are in memory, and their bytes where the store writes uploads: in files, which a restart of the relay
/// discards, or in a database, from which another relay takes over what this one has received.
final class InterruptedUploads: Sendable {
    /// The received part of one upload.
    // Unchecked because of the intake: the lock transfers it between threads, and one thread at a time uses it.
    struct Part: @unchecked Sendable {
        let intake: any AssetUpload
        let size: Int64
    }

    /// The user who uploads.
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
        /// By uptime: with a wall clock that was once ahead, an entry would stay and occupy the space of others.
        var until: Duration
    }

    /// Above these limits, an entry of the user with the most is removed, so that a single user can neither fill the
    /// disk with incomplete uploads nor displace those of others.
    private static let maxParts = 64
    private static let maxBytes: Int64 = 512 * 1024 * 1024
    /// Above this number, the user's entry that expires first is removed.
    static let maxPartsPerUser = 8

    private let parts = Mutex<[String: Entry]>([:])

    /// Stores a part and closes its file descriptor.
    func add(_ part: Part, of owner: Owner, at address: String, until end: Duration, at now: Duration) {
        part.intake.rest(keepingAs: AssetService.key(of: address))
        let dropped = parts.withLock { parts -> [Entry] in
            var dropped = Self.takeEnded(of: &parts, at: now)
            dropped += [parts.updateValue(Entry(part: part, owner: owner, until: end), forKey: address)]
                .compactMap { $0 }
            while let address = Self.addressToEvict(of: parts, since: owner) {
                dropped += [parts.removeValue(forKey: address)].compactMap { $0 }
            }
            return dropped
        }
        // Deinitialization deletes their files; this happens here and not under the lock.
        _ = dropped
    }

    /// Removes expired entries.
    func removeExpired(at now: Duration) {
        // Deinitialization deletes their files; this happens here and not under the lock.
        _ = parts.withLock { Self.takeEnded(of: &$0, at: now) }
    }

    private static func takeEnded(of parts: inout [String: Entry], at now: Duration) -> [Entry] {
        let ended = parts.filter { $0.value.until <= now }
        for address in ended.keys { parts[address] = nil }
        return Array(ended.values)
    }

    /// Returns the address of the entry to remove after `owner` added one; `nil` if none has to be removed.
    private static func addressToEvict(of parts: [String: Entry], since owner: Owner) -> String? {
        if parts.values.count(where: { $0.owner == owner }) > maxPartsPerUser { return first(of: owner, in: parts) }
        if parts.values.reduce(0, { $0 + $1.part.size }) > maxBytes {
            return largestOwner(in: parts, by: \.part.size).flatMap { first(of: $0, in: parts) }
        }
        guard parts.count > maxParts else { return nil }
        return largestOwner(in: parts, by: { _ in 1 }).flatMap { first(of: $0, in: parts) }
    }

    private static func largestOwner(in parts: [String: Entry], by weight: (Entry) -> Int64) -> Owner? {
        let weights = Dictionary(parts.values.map { ($0.owner, weight($0)) }, uniquingKeysWith: +)
        return weights.max { $0.value < $1.value }?.key
    }

    /// Returns the owner's entry that expires first.
    private static func first(of owner: Owner, in parts: [String: Entry]) -> String? {
        parts.filter { $0.value.owner == owner }.min { $0.value.until < $1.value.until }?.key
    }

    /// Removes and returns the received part of an upload, to resume it at `offset` or, with offset 0, to discard it.
    ///
    /// Returns `nil` if the offset is different. If two requests resume at the same time, only one gets the part.
    func take(_ address: String, at offset: Int64) -> Part? {
        parts.withLock { parts in
            guard offset == 0 || parts[address]?.part.resumeOffset == offset else { return nil }
            return parts.removeValue(forKey: address)?.part
        }
    }

    func size(of address: String) -> Int64 { parts.withLock { $0[address]?.part.resumeOffset ?? 0 } }
}
