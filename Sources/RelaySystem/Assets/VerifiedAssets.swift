import Dispatch
import Records
import RelayCore
import Synchronization

/// Which of a store's assets are intact, as far as this process knows.
///
/// A disk may return other bytes than were written, without an error and years later. So each file is checked against
/// the hash in its name before it is first served, unless this process has received it.
final class VerifiedAssets: Sendable {
    private struct Finding {
        var file: FileVersion
        var isSound: Bool
    }

    /// The maximum number of findings, which take some megabytes; with more, files are read again.
    private static let most = 1 << 15

    private let findings = Mutex<[AssetHash: Finding]>([:])
    /// Reads one file at a time: after a restart many are requested, and a disk reads one faster than many at once.
    private let queue = DispatchQueue(label: "zonecast asset checks", qos: .utility)
    /// Large files have a queue of their own, so that a request for a picture does not wait for a film.
    private let largeQueue = DispatchQueue(label: "zonecast asset checks, large", qos: .utility)
    private static let large: Int64 = 1 << 22

    /// Records a file that was received just now: its hash was computed on the way.
    func note(_ hash: AssetHash, at path: String) {
        guard let file = FileVersion(path) else { return }
        keep(Finding(file: file, isSound: true), of: hash)
    }

    /// Runs `touch`, which gives the file a new time, and keeps what is known about the file.
    func renew(_ hash: AssetHash, at path: String, _ touch: () -> Void) {
        let isSound = known(hash, at: path)
        touch()
        guard let isSound, let file = FileVersion(path) else { return }
        keep(Finding(file: file, isSound: isSound), of: hash)
    }

    /// Returns whether the content of the file matches its name; reads the file if that is not known.
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
        // An earlier request may have read it meanwhile.
        if let isSound = known(hash, at: path) { return isSound }
        guard let file = FileVersion(path), let checksum = try? FileChecksum.sha256(of: path) else { return nil }
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
