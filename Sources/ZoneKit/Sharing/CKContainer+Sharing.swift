public import Foundation
import Records
import Wire

extension CKContainer {
    // MARK: Shares by their URLs

    /// Fetches the metadata of a share by its URL, before or after accepting it.
    ///
    /// - Parameter url: The URL of the share; see `CKShare.url`.
    /// - Returns: The metadata that the current user may see.
    /// - Throws: `unknownItem` if the share does not exist, `permissionFailure` if it is not for the current user, and
    ///   the errors of any request.
    public func shareMetadata(for url: URL) async throws -> CKShare.Metadata {
        let results = try await shareMetadatas(for: [url])
        guard let result = results[url] else { throw CKError(.unknownItem) }
        return try result.get()
    }

    /// Fetches the metadata of shares by their URLs.
    ///
    /// - Parameter urls: The URLs of the shares.
    /// - Returns: The metadata or an error for each URL.
    /// - Throws: An error that concerns the request as a whole.
    public func shareMetadatas(for urls: [URL]) async throws -> [URL: Result<CKShare.Metadata, any Error>] {
        try await shareMetadatas(for: urls, fetchingRoots: false, rootKeys: nil)
    }

    package func shareMetadatas(
        for urls: [URL],
        fetchingRoots: Bool,
        rootKeys: [CKRecord.FieldKey]?
    ) async throws(CKError) -> [URL: Result<CKShare.Metadata, any Error>] {
        let body = ClientRequest.shares(
            urls.map(\.lastPathComponent),
            fetchingRoots: fetchingRoots,
            rootKeys: rootKeys
        )
        let metadatas = try await sharedThings("records/resolve", body, count: urls.count)
        return Dictionary(zip(urls, metadatas)) { first, _ in first }
    }

    /// Accepts a share, so that its zone appears in the shared database.
    ///
    /// - Parameter metadata: The metadata of the share, from `shareMetadata(for:)`.
    /// - Returns: The share with the current user as a participant.
    /// - Throws: `unknownItem`, `permissionFailure`, `participantMayNeedVerification`, and the errors of any request.
    @discardableResult
    public func accept(_ metadata: CKShare.Metadata) async throws -> CKShare {
        let results = try await accept([metadata])
        guard let result = results[metadata] else { throw CKError(.internalError) }
        return try result.get()
    }

    /// Accepts shares.
    ///
    /// - Parameter metadatas: The metadata of the shares.
    /// - Returns: The result of each share.
    /// - Throws: An error that concerns the request as a whole.
    public func accept(
        _ metadatas: [CKShare.Metadata]
    ) async throws -> [CKShare.Metadata: Result<CKShare, any Error>] {
        // Publish the key first: when the owner learns of the new participant, the owner's device provides the zone
        // keys.
        await privateCloudDatabase.publishKey()
        let body = ClientRequest.shares(metadatas.map(\.shortGUID))
        let results = try await sharedThings("records/accept", body, count: metadatas.count)
        let shares = results.map { result in result.map(\.share) }
        let zones = shares.compactMap { try? $0.get().recordID.zoneID.zone }
        let connection = try? privateCloudDatabase.session.connection()
        for zone in zones { connection?.cameInto(zone) }
        await tellOfArrival(zones)
        return Dictionary(zip(metadatas, shares)) { first, _ in first }
    }

    /// Reports the new zones to the engines of this device, because the relay sends them no notice.
    private func tellOfArrival(_ zones: [ZoneID]) async {
        guard !zones.isEmpty, let station = try? privateCloudDatabase.session.connection().notices else { return }
        await station.changed(Set(zones), in: .shared, by: nil)
    }

    /// Asks the owners of shares for access.
    ///
    /// - Parameter urls: The URLs of the shares.
    /// - Returns: The result of each request. A share that accepts no requests fails with `unknownItem`, as if it did
    ///   not exist.
    /// - Throws: An error that concerns the request as a whole.
    public func requestShareAccess(for urls: [URL]) async throws -> [URL: Result<Void, any Error>] {
        try await requestAccess(urls)
    }

    package func requestAccess(_ urls: [URL]) async throws(CKError) -> [URL: Result<Void, any Error>] {
        guard !urls.isEmpty else { return [:] }
        let body = ClientRequest.shares(urls.map(\.lastPathComponent))
        let document = try await publicCloudDatabase.call("records/requestaccess", body, isWrite: true)
        let failures = try reading { () throws(JSONError) in try ClientResponse.requestFailures(document.root) }
        return zip(urls, failures).reduce(into: [:]) { results, pair in
            results[pair.0] = pair.1.map { .failure(CKError($0, at: .item)) } ?? .success(())
        }
    }

    /// Sends a `records/resolve` or `records/accept` request, and returns one result for each share.
    private func sharedThings(
        _ operation: String,
        _ body: [UInt8],
        count: Int
    ) async throws(CKError) -> [Result<CKShare.Metadata, any Error>] {
        guard count > 0 else { return [] }
        let connection = try await publicCloudDatabase.connectionKnowingCaller()
        let reader = RecordReader(scope: .public, caller: connection.caller)
        let isWrite = operation == "records/accept"
        let document = try await publicCloudDatabase.call(operation, body, isWrite: isWrite)
        let entries = try reading { () throws(JSONError) in try ClientResponse.sharedThings(document.root) }
        let missing = CKError(.internalError, "The relay's response does not contain this share.")
        return (0..<count).map { place in
            guard place < entries.count else { return .failure(missing) }
            switch entries[place] {
            case .failed(let failure): return .failure(CKError(failure, at: .item))
            case .found(let thing): return Self.metadata(thing, reader)
            }
        }
    }

    private static func metadata(
        _ thing: ClientResponse.SharedThing,
        _ reader: RecordReader
    ) -> Result<CKShare.Metadata, any Error> {
        var reader = reader
        reader.scope = thing.scope
        let zoneID = reader.zoneID(thing.zone)
        guard let found = thing.share, let share = reader.record(found.record, found.details) as? CKShare else {
            return .failure(CKError(.internalError, "The relay's response does not contain the share record."))
        }
        let root = thing.rootRecord.map { reader.record($0) }
        return .success(
            CKShare.Metadata(
                thing,
                share: share,
                rootRecord: root,
                zoneID: zoneID,
                callerName: reader.caller.recordName
            )
        )
    }
}

extension CKContainer {
    // MARK: Variants for callers without tasks

    /// Fetches the metadata of a share by its URL; see `shareMetadata(for:)`.
    @preconcurrency
    public func fetchShareMetadata(
        with url: URL,
        completionHandler: @escaping @Sendable (CKShare.Metadata?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.shareMetadata(for: url) }
    }

    /// Fetches the metadata of shares by their URLs; see `shareMetadatas(for:)`.
    @preconcurrency
    public func fetchShareMetadatas(
        for urls: [URL],
        completionHandler: @escaping @Sendable (Result<[URL: Result<CKShare.Metadata, any Error>], any Error>) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.shareMetadatas(for: urls) }
    }

    /// Accepts a share; see `accept(_:)`.
    @preconcurrency
    public func accept(
        _ metadata: CKShare.Metadata,
        completionHandler: @escaping @Sendable (CKShare?, (any Error)?) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.accept(metadata) }
    }

    /// Accepts shares; see `accept(_:)`.
    @preconcurrency
    public func accept(
        _ metadatas: [CKShare.Metadata],
        completionHandler:
            @escaping @Sendable (Result<[CKShare.Metadata: Result<CKShare, any Error>], any Error>) -> Void
    ) {
        privateCloudDatabase.run(completionHandler) { try await self.accept(metadatas) }
    }
}
