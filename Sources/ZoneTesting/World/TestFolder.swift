package import Foundation
import Synchronization

/// A temporary folder that is created when it is first needed, and removed with this object.
package final class TestFolder: Sendable {
    package let url: URL
    private let isMade = Mutex(false)

    package init(in parent: URL = FileManager.default.temporaryDirectory) {
        url = parent.appendingPathComponent("zonecast-test-\(UUID().uuidString)", isDirectory: true)
    }

    package func make() throws {
        try isMade.withLock { isMade in
            guard !isMade else { return }
            try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
            isMade = true
        }
    }

    /// Creates a folder inside this one.
    package func make(_ name: String) throws -> URL {
        try make()
        let folder = url.appendingPathComponent(name, isDirectory: true)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }

    /// Removes the folder and its contents.
    package func remove() {
        isMade.withLock { isMade in
            if isMade { try? FileManager.default.removeItem(at: url) }
            isMade = false
        }
    }

    deinit { remove() }
}
