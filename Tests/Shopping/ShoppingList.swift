import Foundation
import ZoneMirror

/// An item to buy.
struct Item: SyncedRecord, Equatable {
    var id = RecordName()
    var title = ""
}

/// The list on one device; the container is passed in, so that a test can use its own.
struct ShoppingList {
    let container: MirroredContainer

    var titles: [String] {
        get throws { try container.newBackgroundContext().fetch(Item.self).map(\.title).sorted() }
    }

    @discardableResult func add(_ title: String) throws -> Item {
        let context = container.newBackgroundContext()
        let item = Item(title: title)
        try context.insert(item)
        try context.save()
        return item
    }

    func rename(_ item: Item, to title: String) throws {
        let context = container.newBackgroundContext()
        try context.edit(Item.self, item.id) { $0.title = title }
        try context.save()
    }

    /// Shares the item: everyone who has the link can read and change it.
    func share(_ item: Item) async throws -> URL? {
        let id = try container.newBackgroundContext().objectID(of: item)
        return try await container.share([id], publicPermission: .readWrite).share.url
    }

    func join(_ link: URL) async throws {
        guard let shared = container.descriptions.first(where: { $0.cloud?.scope == .shared }) else { return }
        try await container.acceptShareInvitations(from: [link], into: container.store(at: shared.url))
    }
}
