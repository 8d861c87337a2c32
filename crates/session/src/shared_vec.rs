//! A vector that can be cut and cloned without copying: what makes a fork cost the same everywhere.
//!
//! Elements live in full leaves of a wide tree (immutable once full, shared between clones) and in one short tail.
//! Cloning copies two pointers. Cutting to a prefix shares every leaf before the cut and copies at most one leaf.
//! Pushing to a vector whose parts are shared copies one path of the tree, never the elements.

use std::sync::Arc;

/// Elements per leaf: the most that a cut or the first push after a clone has to copy.
const LEAF: usize = 64;
/// Children per inner node: five levels hold two billion elements.
const WIDTH: usize = 32;

#[derive(Debug)]
enum Node<T> {
    Leaf(Vec<T>),
    Branch(Vec<Arc<Self>>),
}

impl<T: Clone> Clone for Node<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Leaf(items) => Self::Leaf(items.clone()),
            Self::Branch(children) => Self::Branch(children.clone()),
        }
    }
}

/// A persistent vector: push at the end, cut to a prefix, read anywhere.
#[derive(Debug)]
pub struct SharedVec<T> {
    root: Option<Arc<Node<T>>>,
    /// Levels of branches above the leaves; meaningless without a root.
    height: u32,
    /// Elements in the tree: a multiple of `LEAF`.
    in_tree: usize,
    /// The elements behind the tree: at most `LEAF` of them.
    #[expect(clippy::rc_buffer, reason = "grows in place while it is not shared")]
    tail: Arc<Vec<T>>,
}

impl<T> Default for SharedVec<T> {
    fn default() -> Self {
        Self {
            root: None,
            height: 0,
            in_tree: 0,
            tail: Arc::new(Vec::new()),
        }
    }
}

impl<T> Clone for SharedVec<T> {
    fn clone(&self) -> Self {
        Self {
            root: self.root.clone(),
            height: self.height,
            in_tree: self.in_tree,
            tail: Arc::clone(&self.tail),
        }
    }
}

impl<T: Clone> SharedVec<T> {
    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_tree + self.tail.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.chunk(index)
            .and_then(|(first, items)| items.get(index - first))
    }

    /// The last element.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.len().checked_sub(1).and_then(|last| self.get(last))
    }

    /// Adds an element. What is shared with clones stays as it is.
    pub fn push(&mut self, item: T) {
        if self.tail.len() == LEAF {
            let full = std::mem::take(Arc::make_mut(&mut self.tail));
            self.push_leaf(full);
        }
        Arc::make_mut(&mut self.tail).push(item);
    }

    /// Cuts to the first `len` elements; does nothing when there are no more than that.
    /// Keeps the first `len` elements.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        if len >= self.in_tree {
            let keep = len - self.in_tree;
            self.tail = Arc::new(self.tail[..keep].to_vec());
            return;
        }
        let (first, items) = self
            .chunk(len)
            .expect("BUG: a length below the old one has an element");
        let tail = items[..len - first].to_vec();
        let leaves = first / LEAF;
        self.root = self
            .root
            .take()
            .and_then(|root| take_leaves(&root, self.height, leaves));
        self.in_tree = first;
        self.tail = Arc::new(tail);
        // A lone child needs no parent: without this a vector cut short would stay as deep as it once was.
        while let Some(Node::Branch(children)) = self.root.as_deref() {
            if children.len() > 1 {
                break;
            }
            self.root = children.first().cloned();
            self.height -= 1;
        }
    }

    /// The elements from `start` to the end.
    pub(crate) fn iter_from(&self, start: usize) -> Iter<'_, T> {
        Iter {
            vec: self,
            next: start,
            chunk: &[],
            first: 0,
        }
    }

    pub(crate) fn iter(&self) -> Iter<'_, T> {
        self.iter_from(0)
    }

    /// The run of neighbouring elements that holds `index`, and the index of its first.
    fn chunk(&self, index: usize) -> Option<(usize, &[T])> {
        if index >= self.in_tree {
            return (index < self.len()).then_some((self.in_tree, &self.tail[..]));
        }
        let leaf = index / LEAF;
        let mut node = self.root.as_deref()?;
        let mut level = self.height;
        loop {
            match node {
                Node::Leaf(items) => return Some((leaf * LEAF, items)),
                Node::Branch(children) => {
                    level -= 1;
                    node = &children[(leaf / WIDTH.pow(level)) % WIDTH];
                }
            }
        }
    }

    fn push_leaf(&mut self, items: Vec<T>) {
        debug_assert_eq!(items.len(), LEAF);
        let leaves = self.in_tree / LEAF;
        self.in_tree += LEAF;
        let leaf = Arc::new(Node::Leaf(items));
        let Some(mut root) = self.root.take() else {
            (self.root, self.height) = (Some(leaf), 0);
            return;
        };
        if leaves == WIDTH.pow(self.height) {
            root = Arc::new(Node::Branch(vec![root]));
            self.height += 1;
        }
        insert_leaf(&mut root, self.height, leaves, leaf);
        self.root = Some(root);
    }
}

fn insert_leaf<T: Clone>(
    node: &mut Arc<Node<T>>,
    height: u32,
    position: usize,
    leaf: Arc<Node<T>>,
) {
    let Node::Branch(children) = Arc::make_mut(node) else {
        unreachable!("BUG: a full leaf is never at the end of a tree that has room");
    };
    let below = WIDTH.pow(height - 1);
    let slot = (position / below) % WIDTH;
    if slot < children.len() {
        insert_leaf(&mut children[slot], height - 1, position, leaf);
        return;
    }
    let mut child = leaf;
    for _ in 1..height {
        child = Arc::new(Node::Branch(vec![child]));
    }
    children.push(child);
}

/// The subtree's first `leaves` leaves, sharing all of them; `None` for no leaf.
fn take_leaves<T: Clone>(node: &Arc<Node<T>>, height: u32, leaves: usize) -> Option<Arc<Node<T>>> {
    if leaves == 0 {
        return None;
    }
    if leaves >= WIDTH.pow(height) {
        return Some(Arc::clone(node));
    }
    let Node::Branch(children) = &**node else {
        return Some(Arc::clone(node));
    };
    let below = WIDTH.pow(height - 1);
    let whole = leaves / below;
    let mut kept: Vec<_> = children.iter().take(whole).cloned().collect();
    if let Some(child) = children.get(whole) {
        kept.extend(take_leaves(child, height - 1, leaves - whole * below));
    }
    Some(Arc::new(Node::Branch(kept)))
}

#[derive(Debug)]
pub(crate) struct Iter<'a, T> {
    vec: &'a SharedVec<T>,
    next: usize,
    chunk: &'a [T],
    first: usize,
}

impl<'a, T: Clone> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if self.chunk.is_empty() || self.next - self.first >= self.chunk.len() {
            (self.first, self.chunk) = self.vec.chunk(self.next)?;
        }
        let item = self.chunk.get(self.next - self.first)?;
        self.next += 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.vec.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(n: usize) -> SharedVec<usize> {
        let mut vec = SharedVec::default();
        for i in 0..n {
            vec.push(i);
        }
        vec
    }

    #[test]
    fn every_length_around_the_level_borders_reads_back_and_cuts_exactly() {
        let border = LEAF * WIDTH;
        let big = filled(border * 2 + 3 * LEAF + 5);
        for n in [
            0,
            1,
            LEAF - 1,
            LEAF,
            LEAF + 1,
            2 * LEAF,
            border - 1,
            border,
            border + 1,
            border + LEAF,
            big.len(),
        ] {
            let mut cut = big.clone();
            cut.truncate(n);
            assert_eq!(
                cut.iter().copied().collect::<Vec<_>>(),
                (0..n).collect::<Vec<_>>(),
                "cut at {n}"
            );
            cut.push(7);
            assert_eq!(
                (cut.len(), cut.last()),
                (n + 1, Some(&7)),
                "push after a cut at {n}"
            );
        }
        assert_eq!(big.get(big.len()), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize),
        Cut(usize),
        Fork,
    }

    proptest! {
        #[test]
        fn any_mix_of_pushes_cuts_and_clones_equals_plain_vectors(steps in prop::collection::vec(
            prop_oneof![(1..400usize).prop_map(Step::Push), (0..3000usize).prop_map(Step::Cut), Just(Step::Fork)], 1..40)) {
            let mut pairs = vec![(SharedVec::default(), Vec::new())];
            let mut next = 0;
            for step in steps {
                let (shared, plain) = pairs.last_mut().expect("never empty");
                match step {
                    Step::Push(n) => for _ in 0..n {
                        shared.push(next);
                        plain.push(next);
                        next += 1;
                    },
                    Step::Cut(n) => {
                        shared.truncate(n);
                        plain.truncate(n);
                    }
                    Step::Fork => {
                        let copy = (shared.clone(), plain.clone());
                        pairs.push(copy);
                    }
                }
            }
            for (shared, plain) in &pairs {
                prop_assert_eq!(&shared.iter().copied().collect::<Vec<usize>>(), plain);
                prop_assert_eq!(shared.len(), plain.len());
            }
        }
    }
}
