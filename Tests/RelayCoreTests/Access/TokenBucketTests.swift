import Records
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

@Suite struct RateHitsTests {
    private func address(_ number: Int) -> RateSubject { .address("\(number)") }

    @Test func hitsAreSortedByCount() {
        var hits = RateHits()
        hits.note(.requests, .user(UserID("_a")), at: .seconds(1))
        hits.note(.requests, .user(UserID("_b")), at: .seconds(2))
        hits.note(.requests, .user(UserID("_b")), at: .seconds(3))
        hits.note(.failedSignIns, .user(UserID("_b")), at: .seconds(4))
        #expect(
            hits.hits(at: .seconds(5)) == [
                RateHit(rate: .requests, subject: .user(UserID("_b")), count: 2, last: .seconds(3)),
                RateHit(rate: .failedSignIns, subject: .user(UserID("_b")), count: 1, last: .seconds(4)),
                RateHit(rate: .requests, subject: .user(UserID("_a")), count: 1, last: .seconds(1)),
            ]
        )
    }

    @Test func hitsAreForgottenAfterADay() {
        var hits = RateHits()
        for _ in 0..<3 { hits.note(.requests, address(1), at: .zero) }
        #expect(hits.hits(at: RateHits.lifetime).map(\.count) == [3])
        #expect(hits.hits(at: RateHits.lifetime + .seconds(1)).isEmpty)
        hits.note(.requests, address(1), at: RateHits.lifetime + .seconds(1))
        #expect(hits.hits(at: RateHits.lifetime + .seconds(1)).map(\.count) == [1])
    }

    @Test func aFloodOfAddressesIsBoundedAndHidesNoFrequentSubject() {
        var hits = RateHits(capacity: 100)
        for _ in 0..<5 { hits.note(.requests, .user(UserID("_often")), at: .zero) }
        for number in 0..<10_000 {
            hits.note(.failedCredentials, address(number), at: .seconds(1))
            if number % 99 == 0 { #expect(hits.hits(at: .seconds(1)).count <= 100) }
        }
        #expect(hits.hits(at: .seconds(1)).first?.subject == .user(UserID("_often")))
    }
}
