#if Postgres
    import Foundation
    import Records
    import RelayCore
    import RelaySystem
    import Synchronization
    import TestSupport
    import Testing

    @testable import PostgresStore

    /// Assets that clients read while they arrive in the cache; needs no server.
    @Suite(.timeLimit(.minutes(5)))
    final class AssetFetchTests {
        private let folder = ScratchFolder()
        private let cache: AssetCache
        private let content = (0..<1_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }

        init() {
            let draws = Mutex<UInt64>(0)
            cache = AssetCache(folder: folder.path) {
                draws.withLock { last in
                    last += 1
                    return last
                }
            }
        }

        private func hash(of content: [UInt8]) throws -> AssetHash {
            let hasher = PieceHasher()
            hasher.add(content)
            return try #require(hasher.finish())
        }

        /// A fetch that the test lets go on step by step.
        private final class Source: Sendable {
            private let mayGoOn = DispatchSemaphore(value: 0)
            private let pieces: [[UInt8]]
            private let failure: RelayError?
            private let runs = Atomic(0)

            /// Ends with `failure` after the pieces.
            init(_ pieces: [[UInt8]], failure: RelayError? = nil) {
                self.pieces = pieces
                self.failure = failure
            }

            var count: Int { runs.load(ordering: .relaxed) }

            func goOn() { mayGoOn.signal() }

            @Sendable func run(_ upload: any AssetUpload) throws(RelayError) {
                runs.add(1, ordering: .relaxed)
                for piece in pieces {
                    mayGoOn.wait()
                    try upload.take(piece)
                }
                mayGoOn.wait()
                if let failure { throw failure }
            }
        }

        private func arriving(_ hash: AssetHash, size: Int, from source: Source) throws -> any ArrivingAsset {
            let content = try cache.content(of: hash, size: Int64(size), fetch: source.run)
            guard case .arriving(let asset) = content else { throw RelayError(.internalError, "It is here already.") }
            return asset
        }

        private func waitForBytes(of asset: any ArrivingAsset, at offset: Int64) {
            let hasMore = DispatchSemaphore(value: 0)
            asset.whenArrived(at: offset) { hasMore.signal() }
            hasMore.wait()
        }

        @Test("clients read what has arrived, and the file when all has") func streaming() throws {
            let source = Source([Array(content[..<400]), Array(content[400...])])
            let hash = try hash(of: content)
            let asset = try arriving(hash, size: 1_000, from: source)
            let other = try arriving(hash, size: 1_000, from: source)
            #expect(asset === other, "one fetch serves all who need the asset")
            #expect(try asset.bytes(at: 0, most: 1_000).isEmpty)
            source.goOn()
            waitForBytes(of: asset, at: 0)
            #expect(try asset.bytes(at: 0, most: 1_000) == Array(content[..<400]))
            #expect(try asset.bytes(at: 100, most: 50) == Array(content[100..<150]))
            #expect(try asset.bytes(at: 400, most: 1_000).isEmpty)
            source.goOn()
            waitForBytes(of: asset, at: 400)
            // The last byte waits for the hash.
            #expect(try asset.bytes(at: 400, most: 1_000) == Array(content[400..<999]))
            source.goOn()
            waitForBytes(of: asset, at: 999)
            #expect(try asset.bytes(at: 999, most: 1_000) == [content[999]])
            #expect(try asset.bytes(at: 1_000, most: 1_000).isEmpty)
            let file = try #require(try cache.file(of: hash, size: 1_000, fetch: source.run))
            #expect(FileManager.default.contents(atPath: file.path) == Data(content))
            #expect(source.count == 1)
            // As when the cache is trimmed while a client reads.
            unlink(file.path)
            #expect(try asset.bytes(at: 0, most: 1_000) == content)
        }

        @Test("other content is never given out whole, and not kept") func otherContent() throws {
            let source = Source([content])
            let expected = try hash(of: [1])
            let asset = try arriving(expected, size: 1_000, from: source)
            source.goOn()
            waitForBytes(of: asset, at: 0)
            #expect(try asset.bytes(at: 0, most: 1_000).count == 999)
            source.goOn()
            waitForBytes(of: asset, at: 999)
            #expect(throws: RelayError.self) { try asset.bytes(at: 999, most: 1) }
            let again = Source([content])
            for _ in 0..<2 { again.goOn() }
            #expect(try cache.file(of: expected, size: 1_000, fetch: again.run) == nil)
            #expect(again.count == 1)
            #expect(cache.known(try hash(of: content)) == nil)
        }

        @Test("a fetch that fails ends all downloads, and the next one fetches again") func failure() throws {
            let failure = RelayError(.tryAgainLater, "The database is away.", retryAfter: .seconds(1))
            let hash = try hash(of: content)
            let source = Source([Array(content[..<400])], failure: failure)
            let asset = try arriving(hash, size: 1_000, from: source)
            for _ in 0..<2 { source.goOn() }
            waitForBytes(of: asset, at: 999)
            #expect(throws: failure) { try asset.bytes(at: 0, most: 10) }
            let again = Source([content])
            for _ in 0..<2 { again.goOn() }
            #expect(try cache.file(of: hash, size: 1_000, fetch: again.run)?.size == 1_000)
        }
    }
#endif
