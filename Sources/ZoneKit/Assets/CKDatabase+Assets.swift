import Foundation
import Records
import Synchronization
import Wire

/// The results of uploading the files of one call's records.
struct SentFiles {
    /// The assets to save in the records' fields, by asset object of the draft.
    var assets: [ObjectIdentifier: Asset] = [:]
    /// The encrypted fields to send.
    var sealed: [CKRecord.ID: [String: FieldValue?]] = [:]
    /// The errors of records whose files could not be uploaded.
    var failures: [CKRecord.ID: CKError] = [:]

    /// Returns the assets of a field as they are sent.
    ///
    /// Assets that the relay already has are sent without their download URL.
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
    /// Returns the assets that a save sends, with their fields.
    func assetsToSend(_ policy: CKModifyRecordsOperation.RecordSavePolicy) -> [(key: String, asset: CKAsset)] {
        assets.filter { policy == .allKeys || edits[$0.key] != nil }.sorted { $0.key < $1.key }
            .flatMap { key, assets in assets.map { (key, $0) } }
    }
}

extension ModifyItem {
    /// The checksums of the files that were uploaded for the item.
    var sentFiles: [String] {
        write.fields.values.flatMap { $0?.assets ?? [] }.filter { $0.receipt != nil }.map(\.fileChecksum)
    }
}

extension CKDatabase {
    /// Uploads the files of records, once per content, before the records themselves.
    ///
    /// If a file cannot be read or is rejected, its record fails. A failure that would affect all files is thrown, and
    /// so is a change of the user: no file is uploaded as another user than `user`.
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
            // The relay accepts the field's previous asset as it is, and an asset of another record with a receipt.
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
    /// Whether the error concerns a single file, so that other files may succeed.
    fileprivate var isOfFile: Bool {
        switch code {
        case .assetFileNotFound, .assetFileModified, .assetNotAvailable, .limitExceeded, .quotaExceeded,
            .permissionFailure, .invalidArguments, .zoneNotFound, .unknownItem:
            true
        default: false
        }
    }
}
