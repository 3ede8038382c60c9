import RelayCore
import Testing

@Suite struct TokenBucketTests {
    let limit = RateLimit(perSecond: 10, burst: 3)

    @Test func aBurstIsAllowedAndThenTheRate() {
        var bucket = TokenBucket(limit, at: .zero)
        for _ in 0..<3 { #expect(bucket.take(limit, at: .zero) == nil) }
        #expect(bucket.take(limit, at: .zero) == .seconds(0.1))
        #expect(bucket.take(limit, at: .seconds(0.1)) == nil)
        #expect(bucket.take(limit, at: .seconds(0.15)) == .seconds(0.05))
    }

    @Test func tokensAreLimitedToTheBurst() {
        var bucket = TokenBucket(limit, at: .zero)
        for _ in 0..<3 { #expect(bucket.take(limit, at: .seconds(3600)) == nil) }
        #expect(bucket.take(limit, at: .seconds(3600)) != nil)
    }

    @Test func aClockThatGoesBackAddsNoTokens() {
        var bucket = TokenBucket(limit, at: .seconds(100))
        for _ in 0..<3 { #expect(bucket.take(limit, at: .seconds(100)) == nil) }
        #expect(bucket.take(limit, at: .seconds(50)) != nil)
        #expect(bucket.take(limit, at: .seconds(50.2)) == nil)
    }

    @Test func aTakenTokenCanBeReturned() {
        var buckets = TokenBuckets<Int>(RateLimit(perSecond: 1, burst: 1))
        #expect(buckets.take(1, at: .zero) == nil)
        buckets.giveBack(1, at: .zero)
        #expect(buckets.take(1, at: .zero) == nil)
        #expect(buckets.take(1, at: .zero) != nil)
    }

    @Test func theNumberOfBucketsIsLimited() {
        var buckets = TokenBuckets<Int>(limit, capacity: 100)
        for key in 0..<10_000 {
            #expect(buckets.take(key, at: .zero) == nil)
            #expect(buckets.count <= 100)
        }
    }

    @Test func evictionKeepsBucketsThatAreNotFull() {
        var buckets = TokenBuckets<Int>(limit, capacity: 100)
        for key in 0..<99 { _ = buckets.take(key, at: .zero) }
        // By now all the other buckets are full again, and this one is not.
        for _ in 0..<3 { _ = buckets.take(1000, at: .seconds(10)) }
        #expect(buckets.take(1001, at: .seconds(10)) == nil)
        #expect(buckets.count == 2)
        #expect(buckets.take(1000, at: .seconds(10)) != nil)
    }
}
