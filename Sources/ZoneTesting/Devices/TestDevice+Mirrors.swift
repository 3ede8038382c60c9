import Foundation
public import ZoneKit
public import ZoneMirror

extension TestDevice {
    /// Creates a mirror of one of the user's databases, in a file in the device's folder, that syncs by itself.
    ///
    /// After a restart of the device the same call opens the same file.
    ///
    /// - Parameters:
    ///   - model: the entities.
    ///   - scope: the scope of the database; private by default.
    ///   - change: can change the store description before the store is opened.
    /// - Returns: the container, with its store open.
    /// - Throws: the error of `MirroredContainer.loadStores()`.
    public func mirror(
        of model: MirrorModel,
        scope: CKDatabase.Scope = .private,
        _ change: (inout StoreDescription) -> Void = { _ in }
    ) async throws -> MirroredContainer {
        var description = storeDescription(scope: scope, in: try folder())
        change(&description)
        let mirror = MirroredContainer(model: model, stores: [description])
        try await mirror.loadStores()
        return mirror
    }

    /// Creates a mirror of the user's private and shared databases, in one container.
    ///
    /// - Parameter model: the entities.
    /// - Returns: the container, with both stores open.
    /// - Throws: the error of `MirroredContainer.loadStores()`.
    public func sharingMirror(of model: MirrorModel) async throws -> MirroredContainer {
        let folder = try folder()
        let stores = [CKDatabase.Scope.private, .shared].map { storeDescription(scope: $0, in: folder) }
        let mirror = MirroredContainer(model: model, stores: stores)
        try await mirror.loadStores()
        return mirror
    }

    private func storeDescription(scope: CKDatabase.Scope, in folder: URL) -> StoreDescription {
        StoreDescription(
            url: folder.appendingPathComponent("\(scope).sqlite"),
            cloud: CloudOptions(container: container, scope: scope)
        )
    }
}
