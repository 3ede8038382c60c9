package import Foundation
import Synchronization

#if TestStores
    package import StoreTesting
#endif

/// A temporary folder that is created when it is first needed, and removed with this object.
package final class TestFolder: Sendable {
    package let url: URL
    private let isMade = Mutex(false)

    #if TestStores
        /// Where the relay keeps its data instead of in this folder, once it has been opened.
        private let home = Mutex<(any TestHome)?>(nil)

        /// Returns the place for the relay's data, a new one unless the data `lasts` from one run of the relay to the next.
        package func home(lasting lasts: Bool) -> any TestHome {
            home.withLock { home in
                if lasts, let home { return home }
                let new = TestStore.current.makeHome(.lasting)
                home = new
                return new
            }
        }

        /// The place that was opened last.
        package var latestHome: (any TestHome)? { home.withLock { $0 } }
    #endif

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
