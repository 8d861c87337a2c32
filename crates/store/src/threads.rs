//! Many small pieces of work, shared among a few threads.

/// Below so many pieces a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 500;
/// More threads than that wait for the same disk and the same memory.
const MAX_THREADS: usize = 4;

/// Does the work on as many threads as are worth it, and keeps the order.
pub(crate) fn in_threads<T: Send, R: Send>(
    mut items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(MAX_THREADS).min(items.len() / WORTH_A_THREAD);
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let share = items.len().div_ceil(threads);
    let mut shares = Vec::new();
    while items.len() > share {
        shares.push(items.split_off(items.len() - share));
    }
    let work = &work;
    std::thread::scope(|scope| {
        let others = shares.into_iter().rev();
        let others: Vec<_> = others
            .map(|share| scope.spawn(move || share.into_iter().map(work).collect::<Vec<R>>()))
            .collect();
        let mut done: Vec<R> = items.into_iter().map(work).collect();
        for other in others {
            match other.join() {
                Ok(results) => done.extend(results),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_several_threads_keeps_its_order() {
        for count in [0, 1, 499, 999, 1_000, 1_001, 5_003] {
            let done = in_threads((0..count).collect(), |n: usize| (n, n.to_string()));
            let expected: Vec<_> = (0..count).map(|n| (n, n.to_string())).collect();
            assert_eq!(done, expected);
        }
    }
}
