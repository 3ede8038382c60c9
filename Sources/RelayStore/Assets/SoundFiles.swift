import Dispatch
import Records
import RelayCore
import Synchronization

/// Which of a store's assets hold what their names say, as far as this process has seen.
///
/// A disk may give back other bytes than it was given, with no error and years later. So each file is read before it is
/// served for the first time, unless it came to this very process.
final class SoundFiles: Sendable {
    private struct Finding {
        var file: FileVersion
        var isSound: Bool
    }

    /// Some megabytes of findings; those beyond are read once more.
    private static let most = 1 << 15

    private let findings = Mutex<[AssetHash: Finding]>([:])
    /// One file at a time: after a restart many are asked for, and a disk reads one faster than many at once.
    private let queue = DispatchQueue(label: "zonecast asset checks", qos: .utility)
    /// Large ones have a line of their own, so that nobody waits through a film for a picture.
    private let largeQueue = DispatchQueue(label: "zonecast asset checks, large", qos: .utility)
    private static let large: Int64 = 1 << 22

    /// Keeps what came just now: its hash was taken on the way in.
    func note(_ hash: AssetHash, at path: String) {
        guard let file = FileVersion(path) else { return }
        keep(Finding(file: file, isSound: true), of: hash)
    }

    /// Makes the file as new, by `touch`; what is known of it stays known.
    func renew(_ hash: AssetHash, at path: String, _ touch: () -> Void) {
        let isSound = known(hash, at: path)
        touch()
        guard let isSound, let file = FileVersion(path) else { return }
        keep(Finding(file: file, isSound: isSound), of: hash)
    }

    /// Whether the file holds what its name says; reads it where that is not known.
    func isSound(_ asset: AssetFile, _ hash: AssetHash) async throws(RelayError) -> Bool {
        let path = asset.path
        if let isSound = known(hash, at: path) { return isSound }
        let found = await withCheckedContinuation { continuation in
            let line = asset.size < Self.large ? queue : largeQueue
            line.async { continuation.resume(returning: self.look(hash, at: path)) }
        }
        guard let found else {
            throw RelayError(.tryAgainLater, "The relay cannot read this asset right now.", retryAfter: .seconds(30))
        }
        return found
    }

    private func look(_ hash: AssetHash, at path: String) -> Bool? {
        // Whoever came before has read it for all.
        if let isSound = known(hash, at: path) { return isSound }
        guard let file = FileVersion(path), let checksum = try? BackupFiles.checksum(of: path) else { return nil }
        let finding = Finding(file: file, isSound: checksum.hex.hasPrefix(hash.hex))
        keep(finding, of: hash)
        return finding.isSound
    }

    private func known(_ hash: AssetHash, at path: String) -> Bool? {
        guard let file = FileVersion(path) else { return nil }
        return findings.withLock { findings in
            findings[hash].flatMap { $0.file == file ? $0.isSound : nil }
        }
    }

    private func keep(_ finding: Finding, of hash: AssetHash) {
        findings.withLock { findings in
            if findings.count >= Self.most { findings = [:] }
            findings[hash] = finding
        }
    }
}
