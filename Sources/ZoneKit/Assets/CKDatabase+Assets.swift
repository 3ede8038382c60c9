import Foundation
import Records
import Synchronization
import Wire

/// What has become of the files of the records of one call.
struct SentFiles {
    /// What a record's field is to say of an asset, which the record's draft holds.
    var assets: [ObjectIdentifier: Asset] = [:]
    /// Encrypted fields as they are sent.
    var sealed: [CKRecord.ID: [String: FieldValue?]] = [:]
    /// Records whose files could not be sent.
    var failures: [CKRecord.ID: CKError] = [:]

    /// A field's assets as they are sent; what the relay has already goes as it came, without the address it came from.
    func value(of key: String, in state: RecordState) -> FieldValue? {
        guard let field = state.fields[key] else { return nil }
        var rest = (state.assets[key] ?? [])[...]
        return field.mappingAssets { known in
            var asset = rest.popFirst().map { assets[ObjectIdentifier($0)] ?? $0.wire } ?? known
            asset.downloadURL = nil
            return asset
        }
    }
}

extension RecordState {
    /// The assets that a save sends, by field.
    func assetsToSend(_ policy: CKModifyRecordsOperation.RecordSavePolicy) -> [(key: String, asset: CKAsset)] {
        assets.filter { policy == .allKeys || edits[$0.key] != nil }.sorted { $0.key < $1.key }
            .flatMap { key, assets in assets.map { (key, $0) } }
    }
}

extension ModifyItem {
    /// The checksums of the files that were sent for it.
    var sentFiles: [String] {
        write.fields.values.flatMap { $0?.assets ?? [] }.filter { $0.receipt != nil }.map(\.fileChecksum)
    }
}

extension CKDatabase {
    /// Sends the files of records, each content once, before the records themselves.
    ///
    /// A file that cannot be read or is refused is its record's own failure; what would meet every file ends the call. So
    /// does somebody else's sign-in: no file goes in the name of another than `user`.
    func sendFiles(
        of drafts: [Draft],
        _ policy: CKModifyRecordsOperation.RecordSavePolicy,
        for user: AccountBinding,
        _ tell: (ModifyEvent) -> Void
    ) async throws(CKError) -> SentFiles {
        var sent = SentFiles()
        for draft in drafts where !draft.state.assets.isEmpty {
            let state = draft.state
            let assets = state.assetsToSend(policy)
            for (position, (key, asset)) in assets.enumerated() {
                do throws(CKError) {
                    try await user.during { () async throws(CKError) in
                        try await send(asset, key, of: state, &sent)
                    }
                    tell(.progress(draft.record, Double(position + 1) / Double(assets.count + 1)))
                } catch  where error.isOfFile {
                    sent.failures[state.id] = error
                }
            }
        }
        return sent
    }

    private func send(
        _ asset: CKAsset,
        _ key: String,
        of state: RecordState,
        _ sent: inout SentFiles
    ) async throws(CKError) {
        guard let keeper = try session.connection().caller.assets else { return }
        let target = AssetOrigin(scope: scope, record: state.id.record, field: key)
        var file = asset.fileToUpload
        if let origin = asset.origin {
            // The relay takes back what the field held, and what another record holds with a receipt for it.
            guard origin != target else { return }
            if origin.scope == scope,
                let fresh = try await keeper.rereference(origin, asset.wire.fileChecksum, settings)
            {
                sent.assets[ObjectIdentifier(asset)] = fresh
                return
            }
            do {
                file = try await asset.download()
            } catch {
                throw CKError(from: error)
            }
        }
        guard let file else { throw CKError(.assetFileNotFound) }
        let upload = AssetKeeper.Upload(
            file: file,
            recordType: state.type,
            recordName: state.id.recordName,
            field: key,
            settings: settings
        )
        let stored = try await keeper.upload(upload, to: scope, in: state.id.zoneID.zone)
        sent.assets[ObjectIdentifier(asset)] = stored
    }
}

extension CKError {
    /// Whether the error is about one file, and others may fare better.
    fileprivate var isOfFile: Bool {
        switch code {
        case .assetFileNotFound, .assetFileModified, .assetNotAvailable, .limitExceeded, .quotaExceeded,
            .permissionFailure, .invalidArguments, .zoneNotFound, .unknownItem:
            true
        default: false
        }
    }
}
