import Records
import RelayCore
import Synchronization

/// Uploads that broke off: what came of them stays for a while, so that their clients can go on from there.
///
/// An extension of ours to wire reference 15, step 2, in the words of the IETF's resumable uploads: a GET or HEAD of an upload
/// address answers with the header `Upload-Offset`, how many bytes of a body without parts are here; a POST or PUT with that
/// header goes on from there. Whoever sends none begins anew. Kept in memory but for the bytes, which are in the files that
/// uploads are written to: a restart of the relay forgets it all.
final class BrokenUploads: Sendable {
    /// Handed from one thread to the next by the lock, and used by one at a time.
    struct Part: @unchecked Sendable {
        let intake: any AssetIntake
        let size: Int64
    }

    private struct Entry {
        var part: Part
        /// By uptime: what a clock that was ahead has noted would stay, and hold the places of all others.
        var until: Duration
    }

    /// Beyond these the one that ends first goes: nobody is to fill the disk with beginnings.
    private static let mostParts = 64
    private static let mostBytes: Int64 = 512 * 1024 * 1024

    private let parts = Mutex<[String: Entry]>([:])

    func add(_ part: Part, at address: String, until end: Duration, at now: Duration) {
        let dropped = parts.withLock { parts -> [Entry] in
            var dropped = [parts.updateValue(Entry(part: part, until: end), forKey: address)].compactMap { $0 }
            for (address, entry) in parts where entry.until <= now {
                parts[address] = nil
                dropped.append(entry)
            }
            while parts.count > Self.mostParts || parts.values.reduce(0, { $0 + $1.part.size }) > Self.mostBytes {
                guard let first = parts.min(by: { $0.value.until < $1.value.until }) else { break }
                parts[first.key] = nil
                dropped.append(first.value)
            }
            return dropped
        }
        // Their files are removed here, and not under the lock.
        _ = dropped
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
