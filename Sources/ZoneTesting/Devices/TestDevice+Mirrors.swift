import Foundation
public import ZoneKit
public import ZoneMirror

extension TestDevice {
    /// A mirror of one of the user's databases, in a file of the device's folder, that syncs by itself.
    ///
    /// In the next life of the device the same call opens the same file.
    ///
    /// - Parameters:
    ///   - model: The entities.
    ///   - scope: Which database; left out, the private one.
    ///   - change: May change the description before the store is opened.
    /// - Returns: The container, with its store open.
    /// - Throws: What `MirroredContainer.loadStores()` throws.
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

    /// A mirror of what the user has and of what others share with them, in one container.
    ///
    /// - Parameter model: The entities.
    /// - Returns: The container, with both stores open.
    /// - Throws: What `MirroredContainer.loadStores()` throws.
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
