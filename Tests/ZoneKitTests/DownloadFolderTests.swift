import Foundation
import Testing

@testable import ZoneKit

/// The lifetime of downloaded files.
@Suite struct DownloadFolderTests {
    private let parent = FileManager.default.temporaryDirectory
        .appendingPathComponent("folder-\(UUID().uuidString)", isDirectory: true)

    private func isThere(_ url: URL) -> Bool { FileManager.default.fileExists(atPath: url.path) }

    private func download(_ name: String, to folder: DownloadFolder) throws -> DownloadFolder.File {
        let file = folder.file(named: name)
        try folder.prepare()
        try Data(count: 100).write(to: file.url)
        folder.changed(file)
        return file
    }

    @Test func theLeastRecentlyUsedUnheldFileIsRemovedWhenSpaceRunsOut() throws {
        defer { try? FileManager.default.removeItem(at: parent) }
        let folder = DownloadFolder(in: parent, room: 400)
        let held = try download("held", to: folder)
        let places = try (0..<3).map { try download("\($0)", to: folder).url }
        #expect(([held.url] + places).allSatisfy(isThere))
        // Using the file makes the next one the least recently used.
        _ = folder.file(named: "0")
        let last = try download("last", to: folder)
        #expect([held.url, places[0], last.url].allSatisfy(isThere))
        #expect(!isThere(places[1]) && !isThere(places[2]))
    }

    @Test func aFolderIsRemovedWithItsOwnerOrByTheNextProgram() throws {
        defer { try? FileManager.default.removeItem(at: parent) }
        let abandoned = parent.appendingPathComponent("zonecast-downloads-old")
        let foreign = parent.appendingPathComponent("zonecast-downloads-not-ours")
        for folder in [abandoned, foreign] {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }
        try Data().write(to: abandoned.appendingPathComponent("lock"))
        var living: DownloadFolder? = DownloadFolder(in: parent)
        let place = try download("a", to: try #require(living)).url
        #expect(!isThere(abandoned) && isThere(foreign))
        let other = try download("b", to: DownloadFolder(in: parent)).url
        #expect(isThere(place) && !isThere(other))
        living = nil
        #expect(!isThere(place))
    }

    /// Many programs start at the same time, and each removes the folders that others have abandoned.
    @Test func aFolderThatIsBeingCreatedIsNotRemovedAsAbandoned() async throws {
        defer { try? FileManager.default.removeItem(at: parent) }
        let folders = (0..<200).map { _ in DownloadFolder(in: parent) }
        let files = try await withThrowingTaskGroup { group in
            for folder in folders { group.addTask { try download("a", to: folder) } }
            return try await group.reduce(into: [DownloadFolder.File]()) { $0.append($1) }
        }
        #expect(files.allSatisfy { isThere($0.url) })
        let names = try FileManager.default.contentsOfDirectory(atPath: parent.path)
        #expect(names.count == folders.count && !names.contains { $0.hasPrefix(".") })
        withExtendedLifetime(folders) {}
    }
}
